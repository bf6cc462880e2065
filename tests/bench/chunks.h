/* Times a loop in CHUNKS parts, and prints what took least of a call: other work on the machine
 * disturbs few of them. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double spent[CHUNKS];

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *one, const void *other)
{
	return *(const double *)one < *(const double *)other ? -1 : 1;
}

/* Print the nanoseconds of a call, of the fifth of the chunks in which they were fewest. */
static void report(double calls)
{
	qsort(spent, CHUNKS, sizeof *spent, compare);
	fprintf(stderr, "\n%.1f\n", spent[CHUNKS / 5] / calls);
}
