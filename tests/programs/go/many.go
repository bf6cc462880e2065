// Recurses in many goroutines while their stacks grow, shrink and move.
//
//	many GOROUTINES N
//
// Prints for each goroutine its number, how many calls of fib it made, and the result.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

var counts []int

//go:noinline
func fib(id, n int) int {
	counts[id]++
	if n == 7 {
		use(60)
		if counts[id]%1000 < 20 {
			runtime.GC() // stacks of which little is used shrink
		}
		runtime.Gosched() // perhaps to another thread
	}
	if n < 2 {
		return n
	}
	return fib(id, n-1) + fib(id, n-2)
}

// Takes some stack, so that it has to grow.
//
//go:noinline
func use(depth int) byte {
	var room [512]byte
	room[depth] = byte(depth)
	if depth == 0 {
		return room[0]
	}
	return use(depth-1) + room[depth]
}

func main() {
	goroutines, _ := strconv.Atoi(os.Args[1])
	n, _ := strconv.Atoi(os.Args[2])
	counts = make([]int, goroutines)
	results := make([]int, goroutines)
	var all sync.WaitGroup
	for id := 0; id < goroutines; id++ {
		all.Add(1)
		go func(id int) {
			defer all.Done()
			results[id] = fib(id, n)
		}(id)
	}
	all.Wait()
	for id := range counts {
		fmt.Println(id, counts[id], results[id])
	}
}
