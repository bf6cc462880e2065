// A web server, and clients that ask it at a steady rate and check each answer.
//
//	server REQUESTS RATE
//
// Prints the method and path of each request that was answered rightly, and
// ends with status 3 where one was not.
package main

import (
	"fmt"
	"io/ioutil"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

type app struct{ greeting string }

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, a.greeting, " ", r.Method, " ", r.URL.Path)
}

func ask(client *http.Client, base string, n int) (string, error) {
	method, path := "GET", "/item/"+strconv.Itoa(n%50)
	if n%3 == 0 {
		method = "POST"
	}
	request, err := http.NewRequest(method, base+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := ioutil.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	if string(body) != "hello "+method+" "+path {
		return "", fmt.Errorf("answered %q", body)
	}
	return method + " " + path, nil
}

func main() {
	requests, _ := strconv.Atoi(os.Args[1])
	rate, _ := strconv.Atoi(os.Args[2])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	go http.Serve(listener, &app{"hello"})
	base := "http://" + listener.Addr().String()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	if answer, err := client.Get(base + "/first"); err != nil || answer.StatusCode != 200 {
		os.Exit(3)
	}
	var lock sync.Mutex
	var all sync.WaitGroup
	var answered strings.Builder
	failed := false
	began := time.Now()
	work := make(chan int, 64)
	for i := 0; i < 16; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := range work {
				line, err := ask(client, base, n)
				lock.Lock()
				if err != nil {
					failed = true
					line = "! " + err.Error()
				}
				fmt.Fprintln(&answered, line)
				lock.Unlock()
			}
		}()
	}
	for n := 0; n < requests; n++ {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		work <- n
	}
	close(work)
	all.Wait()
	fmt.Print(answered.String())
	fmt.Fprintln(os.Stderr, "requests a second:", int(float64(requests)/time.Since(began).Seconds()))
	if failed {
		os.Exit(3)
	}
}
