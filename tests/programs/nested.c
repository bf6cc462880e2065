/* Threads that call ten functions inside each other, and leave them by return alone. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int over;

#define NESTED(name, inner)                                                                        \
	__attribute__((noinline)) long name(long n)                                                \
	{                                                                                          \
		volatile long sum = n;                                                             \
		for (int i = 0; i < 2 && !over; i++)                                               \
			sum += inner(n + i);                                                       \
		return sum;                                                                        \
	}

__attribute__((noinline)) long nest9(long n)
{
	volatile long sum = n;
	return sum + 1;
}
NESTED(nest8, nest9)
NESTED(nest7, nest8)
NESTED(nest6, nest7)
NESTED(nest5, nest6)
NESTED(nest4, nest5)
NESTED(nest3, nest4)
NESTED(nest2, nest3)
NESTED(nest1, nest2)
NESTED(nest0, nest1)

static void *work(void *unused)
{
	while (!over)
		nest0(1);
	return unused;
}

int main(void)
{
	pthread_t threads[3];

	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	sleep(60);
	over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
