/* The sample of the README: recursion to look at. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 4;

	printf("fib(%d) = %d\n", n, fib(n));
	return 0;
}
