/*
 * Four threads call work() ten times each, the first thread once more.
 *
 * Waits for a line of input first. Prints how many calls were made.
 */
#include <pthread.h>
#include <stdio.h>

__attribute__((noinline)) int work(int n)
{
	__asm__ volatile("" ::: "memory");
	return n + 1;
}

static void *run(void *calls)
{
	for (int i = 0; i < 10; i++)
		work(i);
	return calls;
}

int main(void)
{
	pthread_t threads[4];

	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	work(99);
	puts("41");
	return 0;
}
