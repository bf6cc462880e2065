// Recurses, as the README's example does.
//
//	fib N
package main

import (
	"fmt"
	"os"
	"strconv"
)

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// Small enough to be inlined wherever it is called.
func double(n int) int { return 2 * n }

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	fmt.Println(fib(n), double(n))
}
