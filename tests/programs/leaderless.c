/*
 * A second thread calls tick() as often as the argument says, once the first one has ended, and a
 * line of input has come. Then a third thread calls it ten times. Prints "ready" before.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_t first;

__attribute__((noinline)) int tick(int n)
{
	__asm__ volatile("" ::: "memory");
	return n + 1;
}

static void *run_last(void *none)
{
	for (int i = 0; i < 10; i++)
		tick(1000 + i);
	return none;
}

static void *run(void *times)
{
	pthread_t last;

	pthread_join(first, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	for (long i = 0; i < (long)times; i++)
		tick(i);
	pthread_create(&last, NULL, run_last, NULL);
	pthread_join(last, NULL);
	return times;
}

int main(int argc, char **argv)
{
	pthread_t second;

	first = pthread_self();
	pthread_create(&second, NULL, run, (void *)atol(argc > 1 ? argv[1] : "5"));
	pthread_exit(NULL);
}
