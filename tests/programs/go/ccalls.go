// Calls C, which recurses, from goroutines; prints the sum.
package main

/*
#cgo CFLAGS: -O1 -g
#pragma GCC optimize ("no-optimize-sibling-calls")
__attribute__((noinline)) static int down(int n) { return n ? down(n - 1) + 1 : 0; }
__attribute__((noinline)) int depth(int n, long twice) { return down(n) + 0 * twice; }
*/
import "C"

import (
	"fmt"
	"sync"
)

//go:noinline
func ask(n int) int { return int(C.depth(C.int(n), C.long(2*n))) }

func main() {
	var all sync.WaitGroup
	var lock sync.Mutex
	sum := 0
	for n := 1; n <= 20; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			for i := 0; i < 50; i++ {
				got := ask(n)
				lock.Lock()
				sum += got
				lock.Unlock()
			}
		}(n)
	}
	all.Wait()
	fmt.Println(sum)
}
