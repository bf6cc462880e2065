// A library for C.
package main

import "C"

//export Twice
func Twice(n int) int { return helper(n) * 2 }

//go:noinline
func helper(n int) int { return n + 1 }

func main() {}
