// Values of two words, of which the optimiser keeps one: the other is always the same.
package main

import "fmt"

//go:noinline
func work(n int, shown bool) {
	ratio := float64(n) / 4
	number := complex(ratio, 1)
	other := complex(2, ratio)
	both := complex(ratio, -ratio)
	text := fmt.Sprint("text", n)
	fmt.Println("number", number, "other", other, "both", both, "text", len(text)) // read here
	if shown {
		fmt.Println(number, other, both, text, n)
	}
}

func main() {
	for n := 1; n < 6; n++ {
		work(n, n > 2)
	}
}
