// Leaves functions in every way Go has. Each call says so when it begins, and
// each that returns when it ends, so that the rest was left otherwise.
//
//	+ name number    a call began
//	- name number    it returned
package main

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

var log strings.Builder
var lock sync.Mutex

func say(sign, name string, number int) {
	lock.Lock()
	fmt.Fprintln(&log, sign, name, number)
	lock.Unlock()
}

//go:noinline
func plain(n int) int {
	say("+", "main.plain", n)
	say("-", "main.plain", n)
	return n
}

//go:noinline
func sink(n int) int {
	say("+", "main.sink", n)
	if n%10 == 0 {
		var none *int
		if n == 20 {
			return *none // a fault, which becomes a panic
		}
		panic(n)
	}
	result := sink(n-1) + 1
	say("-", "main.sink", n)
	return result
}

//go:noinline
func cleanup(n int) {
	say("+", "main.cleanup", n)
	plain(n)
	say("-", "main.cleanup", n)
}

//go:noinline
func through(n int) int {
	say("+", "main.through", n)
	defer cleanup(n)
	result := sink(n)
	say("-", "main.through", n)
	return result
}

//go:noinline
func catch(n int) (result int) {
	say("+", "main.catch", n)
	defer func() {
		if recover() != nil {
			result = -n
		}
		say("-", "main.catch", n)
	}()
	return through(n)
}

//go:noinline
func again(n int) int {
	say("+", "main.again", n)
	defer func() {
		recover()
		say("-", "main.again", n)
	}()
	defer func() { panic("another") }()
	return sink(n)
}

//go:noinline
func leave(n int) int {
	say("+", "main.leave", n)
	defer cleanup(n)
	if n > 0 {
		return leave(n - 1)
	}
	runtime.Goexit()
	return n
}

//go:noinline
func grow(n int) int {
	say("+", "main.grow", n)
	var room [4096]byte
	room[n] = byte(n)
	result := n
	if n > 0 {
		result = grow(n-1) + int(room[n-1])
	}
	say("-", "main.grow", n)
	return result
}

func main() {
	for n := 1; n <= 25; n += 3 {
		catch(n)
		plain(n)
	}
	again(13)
	plain(100)
	done := make(chan bool)
	for n := 0; n < 8; n++ {
		go func(n int) {
			defer func() { done <- true }()
			catch(n + 3)
			grow(20)
			leave(n)
		}(n)
	}
	for n := 0; n < 8; n++ {
		<-done
	}
	grow(50)
	for runtime.NumGoroutine() > 1 {
		runtime.Gosched() // their last defer has run, but they may not be gone
	}
	fmt.Print(log.String())
}
