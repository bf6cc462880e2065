/*
 * Calls tick() until it is stopped: something to attach to.
 *
 *     loop [MICROSECONDS [CALLS]]
 *
 * Prints "ready" when it begins. SIGTERM ends it with status 7, SIGUSR1 is
 * counted and printed; both totals are printed at the end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t stopped, signals;

static void stop(int number) { stopped = number; }
static void count(int number) { signals += number == SIGUSR1; }

__attribute__((noinline)) long tick(long n)
{
	__asm__ volatile("" ::: "memory");
	return n + 1;
}

int main(int argc, char **argv)
{
	long pause = argc > 1 ? atol(argv[1]) : 1000, most = argc > 2 ? atol(argv[2]) : -1, n = 0;
	int printed = 0;

	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	signal(SIGUSR1, count);
	puts("ready");
	fflush(stdout);
	while (!stopped && n != most) {
		n = tick(n);
		if (printed < signals) {
			printed++;
			puts("SIGUSR1");
			fflush(stdout);
		}
		if (pause)
			usleep(pause);
	}
	printf("ticks %ld signals %d\n", n, (int)signals);
	return stopped ? 7 : 0;
}
