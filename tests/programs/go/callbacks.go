// Go that C calls back, on threads of Go's and on its own; prints which goroutine ran which call.
package main

/*
#cgo CFLAGS: -O1 -g
#cgo LDFLAGS: -pthread
#include <pthread.h>
long answer(long);
static __attribute__((noinline)) long middle(long n) { return answer(n) + 1; }
static void *run(void *first)
{
	long sum = 0;
	for (long i = 0; i < 5; i++)
		sum += middle((long)first + i);
	return (void *)sum;
}
static long on_threads(void)
{
	pthread_t threads[3];
	void *part;
	long sum = 0;
	for (long i = 0; i < 3; i++)
		pthread_create(threads + i, 0, run, (void *)(1000 * (i + 1)));
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &part);
		sum += (long)part;
	}
	return sum;
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

var lock sync.Mutex

func note(n int) {
	var text [64]byte
	words := strings.Fields(string(text[:runtime.Stack(text[:], false)]))
	lock.Lock()
	fmt.Println(n, words[1])
	lock.Unlock()
}

//export answer
func answer(n C.long) C.long { return C.long(inner(int(n))) }

//go:noinline
func inner(n int) int {
	note(n)
	if n%3 == 2 {
		return n + int(C.middle(C.long(n-1)))
	}
	return n
}

//go:noinline
func leaf(n int) int { return n + 1 }

// Works for so long that it is preempted, then calls.
//go:noinline
func spin(n int) int {
	sum := 0
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		for i := 0; i < 10000000; i++ {
			sum ^= i * n
		}
	}
	return leaf(n) + sum&0
}

//export work
func work(n C.long) C.long { return C.long(spin(int(n))) }

func main() {
	if len(os.Args) > 1 {
		for n := 0; n < 10; n++ {
			spin(n)
		}
		return
	}
	var all sync.WaitGroup
	for g := 1; g <= 4; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for n := 0; n < 5; n++ {
				C.middle(C.long(100*g + n))
			}
		}(g)
	}
	all.Wait()
	C.on_threads()
}
