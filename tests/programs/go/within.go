// Goroutines that call each other's functions at random, and log which calls happen below calls of
// outer, and those: within SEED
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

var next int64
var lock sync.Mutex
var log = bufio.NewWriter(os.Stdout)

type worker struct {
	*rand.Rand
	inside, depth, left int
}

func (w *worker) note(number int64) {
	if w.inside > 0 {
		lock.Lock()
		fmt.Fprintln(log, number)
		lock.Unlock()
	}
}

func (w *worker) act() {
	for n := w.Intn(5); n > 0; n-- {
		w.left--
		if w.depth > 12 || w.left < 0 {
			return
		}
		switch w.Intn(6) {
		case 0:
			outer(atomic.AddInt64(&next, 1), w)
		case 1:
			runtime.Gosched()
		case 2:
			grow(w.Intn(40), w)
		default:
			one(atomic.AddInt64(&next, 1), w)
		}
	}
}

//go:noinline
func grow(n int, w *worker) int {
	var room [256]byte
	room[n] = byte(n)
	if n > 0 {
		return grow(n-1, w) + int(room[n/2])
	}
	w.act()
	return 0
}

//go:noinline
func one(number int64, w *worker) {
	w.depth++
	w.note(number)
	w.act()
	w.depth--
}

//go:noinline
func outer(number int64, w *worker) {
	w.inside++
	w.depth++
	w.note(number)
	w.act()
	w.depth--
	w.inside--
}

func main() {
	seed, _ := strconv.ParseInt(os.Args[1], 10, 64)
	var all sync.WaitGroup
	for n := int64(0); n < 20; n++ {
		all.Add(1)
		go func(n int64) {
			w := &worker{Rand: rand.New(rand.NewSource(seed + n)), left: 100}
			for w.left > 0 {
				w.act()
			}
			all.Done()
		}(n)
	}
	all.Wait()
	log.Flush()
}
