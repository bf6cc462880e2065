// Grows and shrinks stacks, panics, recovers and spawns until its time is up,
// and checks all it computes.
//
//	churn SECONDS
//
// Prints how often each function was called, or ends with status 3 where a
// result is wrong.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var sums, faults, spawns, mixes int64

//go:noinline
func sum(depth, seed int) int {
	atomic.AddInt64(&sums, 1)
	var room [256]int
	for i := range room {
		room[i] = seed + i
	}
	if depth > 0 {
		return sum(depth-1, seed+1) + room[depth%256]
	}
	return room[7]
}

//go:noinline
func fault(depth int, why string) (result string) {
	atomic.AddInt64(&faults, 1)
	if depth > 0 {
		defer func() {
			if depth == 3 {
				if caught := recover(); caught != nil {
					result = caught.(string) + "!"
				}
			}
		}()
		return fault(depth-1, why)
	}
	panic(why)
}

//go:noinline
func mix(a int, b string, c []byte, d float64, e *int) (int, string) {
	atomic.AddInt64(&mixes, 1)
	return a + len(c) + int(d) + *e, b + string(c)
}

//go:noinline
func spawn(n int, all *sync.WaitGroup, wrong *int64) {
	atomic.AddInt64(&spawns, 1)
	defer all.Done()
	depth := n % 200
	expected := n + depth + 7
	for i := depth; i > 0; i-- {
		expected += n + depth - i + i%256
	}
	if sum(depth, n) != expected {
		atomic.AddInt64(wrong, 1)
	}
	if fault(3+n%5, "oops") != "oops!" {
		atomic.AddInt64(wrong, 1)
	}
	five := 5
	if total, text := mix(n, "x", []byte("yz"), 2.5, &five); total != n+9 || text != "xyz" {
		atomic.AddInt64(wrong, 1)
	}
	if n%3 == 0 {
		runtime.Gosched()
	}
	if n%7 == 0 {
		runtime.Goexit()
	}
}

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var wrong int64
	for n := 0; time.Now().Before(end); n++ {
		var all sync.WaitGroup
		for i := 0; i < 8; i++ {
			all.Add(1)
			go spawn(8*n+i, &all, &wrong)
		}
		all.Wait()
		if n%20 == 0 {
			runtime.GC()
		}
	}
	fmt.Println("main.sum", sums)
	fmt.Println("main.fault", faults)
	fmt.Println("main.mix", mixes)
	fmt.Println("main.spawn", spawns)
	if wrong != 0 {
		os.Exit(3)
	}
}
