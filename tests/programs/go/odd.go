// What debug information leaves out or tells in odd ways: parameters without a name,
// methods the compiler makes, values of no size, complex numbers.
package main

import "fmt"

//go:noinline
func blank(_ int, b int, _ string) int { return b }

//go:noinline
func spread(_ [2]int, b int, s string, _ [2]int8) ([2]int, int, string) {
	return [2]int{b, b}, b, s
}

//go:noinline
func unnamed(int, string) (int, error) { return 3, nil }

type Nothing struct {
	A int
	B [3]struct{}
}
type Leading struct {
	B [0]int
	A int
}

//go:noinline
func nothing(z Nothing, n int, y Leading, e [0]string) (Nothing, int) {
	return Nothing{z.A + 1, z.B}, n
}

//go:noinline
func complexes(c [2]complex128, n int) ([2]complex128, int) { return c, n }

type Code int

//go:noinline
func (c Code) Error() string { return fmt.Sprint("code ", int(c)) }

type Inner struct{ ID int }

//go:noinline
func (i Inner) Times(n int) int { return i.ID * n }

type Outer struct {
	Name string
	*Inner
}

type Timer interface{ Times(n int) int }

//go:noinline
func timed(t Timer, n int) int { return t.Times(n) }

//go:noinline
func message(e error) string { return e.Error() }

//go:noinline
func at(s []int, n int) (got int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	return s[n], nil
}

func main() {
	fmt.Println(blank(1, 2, "x"))
	fmt.Println(spread([2]int{1, 2}, 3, "four", [2]int8{5, 6}))
	fmt.Println(unnamed(1, "x"))
	fmt.Println(nothing(Nothing{A: 1}, 2, Leading{A: 3}, [0]string{}))
	fmt.Println(complexes([2]complex128{5 + 6i, -7 - 8i}, 9))
	code := Code(4)
	fmt.Println(message(code), message(&code))
	outer := Outer{"o", &Inner{7}}
	fmt.Println(timed(outer, 3), timed(&outer, 4), timed(outer.Inner, 5))
	fmt.Println(at([]int{1}, 3))
}
