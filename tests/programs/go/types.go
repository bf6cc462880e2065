// Calls functions of many signatures and prints each call as lbtrace shows it.
package main

import (
	"errors"
	"fmt"
)

type Point struct{ X, Y int32 }
type Named int16
type Mixed struct {
	A int8
	F float64
	S string
	P *Point
}
type Big struct{ W [4]int }
type Empty struct{}
type One struct{ V [1]uint16 }

//go:noinline
func small(a int8, b uint8, c int16, d uint16, e int32, f uint32) int64 {
	return int64(a) + int64(b) + int64(c) + int64(d) + int64(e) + int64(f)
}

//go:noinline
func many(a, b, c, d, e, f, g, h, i, j, k int) int { return j*1000 + k + a + b + c + d + e + f + g + h + i }

//go:noinline
func truth(yes bool, no bool) bool { return yes && !no }

//go:noinline
func text(s string, n int) string { return s + fmt.Sprint(n) }

//go:noinline
func floats(x float64, n int, y float32, m uint8) float64 { return x + float64(y) + float64(n) + float64(m) }

//go:noinline
func point(p Point, n Named) Point { return Point{p.Y, p.X + int32(n)} }

//go:noinline
func mixed(m Mixed, last int) int { return int(m.A) + len(m.S) + last }

//go:noinline
func big(b Big, n int) (Big, int) { b.W[0] = n; return b, b.W[3] }

//go:noinline
func empty(e Empty, n int, o One) int { return n + int(o.V[0]) }

//go:noinline
func slice(v []int, w []string) int { return len(v)*10 + len(w) }

type Pair struct {
	Key string
	N   int
}

//go:noinline
func texts(v []string, w []string, n int) ([]string, int) { return v[1:], len(w) + n }

//go:noinline
func pairs(x []Pair, y []error) int { return len(x)*10 + len(y) }

//go:noinline
func maps(m map[string]int, c chan int) int { return len(m)*10 + len(c) }

//go:noinline
func several(n int) (int, string, error) {
	if n > 1 {
		return n, "big", errors.New("too big")
	}
	return n, "small", nil
}

//go:noinline
func named(n int) (sum int, ok bool) { sum = n + 1; ok = n > 0; return }

//go:noinline
func blank(_ int, b int, _ string) int { return b }

//go:noinline
func face(v interface{}, e error) int {
	if e != nil {
		return 1
	}
	return 0
}

//go:noinline
func (p *Point) Move(dx, dy int32) int32 { p.X += dx; p.Y += dy; return p.X + p.Y }

//go:noinline
func (p Point) Sum(n int) int { return int(p.X) + int(p.Y) + n }

func main() {
	fmt.Println(small(-1, 255, -300, 65535, -70000, 4000000000))
	fmt.Println(many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	fmt.Println(truth(true, false))
	fmt.Println(text("héllo", 7))
	fmt.Println(floats(1.5, -4, 2.5, 9))
	fmt.Println(point(Point{-3, 4}, -5))
	fmt.Println(mixed(Mixed{-7, 2.5, "abc", nil}, 42))
	fmt.Println(big(Big{[4]int{1, 2, 3, 4}}, 99))
	fmt.Println(empty(Empty{}, 5, One{[1]uint16{6}}))
	fmt.Println(slice([]int{1, 2, 3}, []string{"a"}))
	fmt.Println(texts([]string{"set", "", "octi", "fest"}, nil, 3))
	fmt.Println(texts([]string{"get"}, []string{"a", "b"}, 4))
	fmt.Println(pairs([]Pair{{"k", 7}, {"", -8}}, []error{nil}))
	c := make(chan int, 3)
	c <- 1
	fmt.Println(maps(map[string]int{"a": 1, "b": 2}, c))
	fmt.Println(several(1))
	fmt.Println(several(2))
	fmt.Println(named(3))
	fmt.Println(blank(1, 2, "x"))
	fmt.Println(face(3, nil))
	fmt.Println(face("x", errors.New("bad")))
	p := &Point{1, 2}
	fmt.Println(p.Move(3, 4), p.Sum(5))
}
