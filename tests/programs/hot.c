/*
 * Prints the nanoseconds of processor time that a call takes:
 *
 *     hot push|step|text CALLS
 *
 * push() and text() begin with a push, which kernels emulate; step() has no such place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noipa)) long leaf(long n)
{
	__asm__ volatile("" ::: "memory");
	return n + 1;
}

__attribute__((noipa)) long push(long n)
{
	long first = leaf(n);

	return leaf(first) + first * n;
}

__attribute__((noipa)) long step(long n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3 + 1;
}

__attribute__((noipa)) long text(int a, int b, const char *name)
{
	long first = leaf(a);

	return leaf(first) + first * b + (name != NULL);
}

int main(int argc, char **argv)
{
	long calls = argc > 2 ? atol(argv[2]) : 1, sum = 0;
	int pushing = argc > 1 && !strcmp(argv[1], "push");
	int with_text = argc > 1 && !strcmp(argv[1], "text");
	/* like the names that programs pass: read before, sixteen bytes */
	static char name[] = "sixteen bytes it";
	struct timespec from, to;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	for (long i = 0; i < calls; i++)
		sum += pushing ? push(i) : with_text ? text(i, i + 1, name) : step(i);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	fprintf(stderr, "%.1f\n",
		((to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec) / calls);
	return sum == 42;
}
