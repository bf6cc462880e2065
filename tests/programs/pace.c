/*
 * Makes calls at an even pace and prints how many a second it made:
 *
 *     pace number|named|system RATE THREADS SECONDS
 *
 * RATE is that of all threads together, 0 as fast as they can. number() takes an integer, named() a
 * string and a structure of which each call has others; a call of the system is getppid().
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct item {
	int id;
	double weight;
	const char *label;
};

static double rate, seconds;
static int names, calls_system;

__attribute__((noipa)) long number(long n)
{
	__asm__ volatile("" ::: "memory");
	return n + 1;
}

__attribute__((noipa)) long named(const char *name, const struct item *item)
{
	__asm__ volatile("" ::: "memory");
	return name[0] + item->id;
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

static void *call(void *made)
{
	const double begin = now();
	struct item item = { .label = "label" };
	char name[32] = "";
	long n = 0;

	for (double spent = 0; spent < seconds; spent = now() - begin) {
		/* as many as are due, a thousandth of a second's calls at once */
		const long most = n + 1 + rate / 1000;
		long due = rate ? (long)(spent * rate) : n + 256;

		if (rate && due > most)
			due = most;
		if (due == n) {
			nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
			continue;
		}
		for (; n < due; n++) {
			if (calls_system) {
				syscall(SYS_getppid);
				continue;
			}
			if (!names) {
				number(n);
				continue;
			}
			snprintf(name, sizeof(name), "name %ld", n);
			item.id = n;
			item.weight = n / 8.0;
			named(name, &item);
		}
	}
	*(long *)made = n;
	return NULL;
}

int main(int argc, char **argv)
{
	long threads, made[64], sum = 0;
	pthread_t ids[64];

	if (argc != 5)
		return 2;
	names = !strcmp(argv[1], "named");
	calls_system = !strcmp(argv[1], "system");
	threads = atol(argv[3]);
	rate = atof(argv[2]) / threads;
	seconds = atof(argv[4]);
	for (long i = 0; i < threads && i < 64; i++)
		pthread_create(&ids[i], NULL, call, &made[i]);
	for (long i = 0; i < threads && i < 64; i++) {
		pthread_join(ids[i], NULL);
		sum += made[i];
	}
	fprintf(stderr, "%.0f\n", sum / seconds);
	return 0;
}
