// Panics in many ways, and says of each that it recovers what it was: number, type and text, apart
// by tabs. With an argument, the last one is not recovered.
package main

import (
	"errors"
	"fmt"
	"os"
)

type Custom struct {
	Code int
	Name string
}

type Fault struct {
	Op  string
	Err error
}

func (f *Fault) Error() string { return f.Op + ": " + f.Err.Error() }

type Level int

var table map[string]int

//go:noinline
func fails(n int, data []int, p *Custom, held interface{}) int {
	switch n {
	case 0:
		panic("static text")
	case 1:
		panic(errors.New("an error"))
	case 2:
		return data[n+3]
	case 3:
		table["x"] = 1
	case 4:
		return p.Code
	case 5:
		panic(Custom{7, "seven"})
	case 6:
		panic(&Fault{"read", errors.New("inner")})
	case 7:
		panic(fmt.Errorf("wrapped: %w", os.ErrNotExist))
	case 8:
		return held.(int)
	case 9:
		panic(42)
	case 10:
		return 1 / (n - 10)
	case 11:
		panic(Level(3))
	case 12:
		panic(fmt.Sprintf("value %d", n))
	case 13:
		return len(data[n : n-5])
	case 14:
		panic(3.5)
	case 15:
		panic(&Custom{8, "eight"})
	case 16:
		return len(make([]int, n-20))
	case 17:
		return data[n-20]
	}
	return n
}

//go:noinline
func passes(n int) int { return fails(n, []int{1, 2, 3}, nil, "text") + 1 }

//go:noinline
func say(n int, found interface{}) { fmt.Printf("%d\t%T\t%v\n", n, found, found) }

//go:noinline
func guards(n int) (result int) {
	defer func() {
		if found := recover(); found != nil {
			say(n, found)
			result = -1
		}
	}()
	return passes(n)
}

//go:noinline
func inner(n int) { panic(n) }

//go:noinline
func rewraps(n int) {
	defer func() {
		panic(fmt.Sprint("again ", recover()))
	}()
	inner(n)
}

//go:noinline
func between(n int) int { rewraps(n); return n }

//go:noinline
func outer(n int) {
	defer func() { say(n, recover()) }()
	between(n)
}

func main() {
	for n := 0; n <= 18; n++ {
		guards(n)
	}
	outer(100)
	done := make(chan bool)
	go func() {
		guards(7)
		outer(101)
		close(done)
	}()
	<-done
	if len(os.Args) > 1 {
		passes(6)
	}
}
