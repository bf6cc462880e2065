/*
 * Functions that end by jumps, as gcc -O2 makes them of calls in the end. With an argument it runs
 * so many rounds.
 */
#include <stdlib.h>
#include <unistd.h>

#define TRACED __attribute__((noipa))

static volatile long sink;

TRACED long leaf(long n)
{
	sink = n;
	return n * 2;
}

TRACED long third(long n)
{
	sink += n;
	if (n == 12)
		usleep(6000);
	return n + 3;
}

TRACED long second(long n)
{
	sink += n;
	return third(n + 1);
}

TRACED long first(long n)
{
	sink += leaf(n);
	return second(n + 1);
}

TRACED long odd(long n);

TRACED long even(long n)
{
	sink += n;
	return n ? odd(n - 1) : 1;
}

TRACED long odd(long n)
{
	sink += n;
	return n ? even(n - 1) : 0;
}

TRACED char *text(long n)
{
	sink = n;
	return "hello";
}

TRACED void *raw(long n)
{
	sink = n;
	return (void *)"raw";
}

TRACED char *raw_text(long n)
{
	sink += n;
	return raw(n);
}

TRACED char *same_text(long n)
{
	sink += n;
	return text(n);
}

TRACED void no_result(long n)
{
	sink += n;
	third(n);
}

TRACED long either(long n)
{
	if (n & 1)
		return second(n);
	sink += leaf(n);
	return third(n);
}

TRACED void away(void *p)
{
	sink++;
	free(p);
}

static long (*volatile pointer)(long) = leaf;

TRACED long through(long n)
{
	sink += n;
	return pointer(n);
}

TRACED long above(long n)
{
	sink += n;
	return through(n + 1);
}

/* Where calls by these return to is not known before. */
static void (*volatile far_away)(void *) = away;
static long (*volatile far_above)(long) = above;

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 1;

	for (long i = 0; i < rounds; i++) {
		sink = first(i + 10);
		sink = even(5) + odd(6);
		sink = *raw_text(1) + *same_text(2);
		no_result(3);
		sink = either(3) + either(4);
		away(malloc(8));
		sink = above(7);
		far_away(malloc(8));
		sink = far_above(17);
		sink = leaf(9);
	}
	return 0;
}
