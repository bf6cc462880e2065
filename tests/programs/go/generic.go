// Generic functions, closures, and methods called through interfaces.
package main

import "fmt"

type Number interface{ ~int | ~float64 }

//go:noinline
func Map[T Number, U any](v []T, f func(T) U) []U {
	var out []U
	for _, x := range v {
		out = append(out, f(x))
	}
	return out
}

type Stack[T any] struct{ items []T }

//go:noinline
func (s *Stack[T]) Push(x T) int { s.items = append(s.items, x); return len(s.items) }

type Shape interface{ Area(scale int) int }
type Sq struct{ a int }

//go:noinline
func (s Sq) Area(scale int) int { return s.a * s.a * scale }

func adder(n int) func(int) int { return func(m int) int { return n + m } }

func main() {
	k := 3
	fmt.Println(Map([]int{1, 2, 3}, func(x int) string { return fmt.Sprint(x + k) }))
	fmt.Println(Map([]float64{1, 2}, func(x float64) int { return int(x) }))
	s := &Stack[string]{}
	s.Push("a")
	fmt.Println(s.Push("b"))
	push := s.Push
	fmt.Println(push("c"))
	var sh Shape = &Sq{4}
	fmt.Println(sh.Area(2))
	f := adder(5)
	fmt.Println(f(6))
}
