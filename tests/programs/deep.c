/* One call inside the other, as deep as asked. Its recursion is no tail call. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) long deep(long n)
{
	return n ? deep(n - 1) + n : 0;
}

int main(int argc, char **argv)
{
	return argc < 2 || deep(atol(argv[1])) < 0;
}
