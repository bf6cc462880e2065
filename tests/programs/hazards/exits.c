/* A thread ends, or is cancelled, in the middle: its cleanup handlers run. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>
static int cleaned;
static void clean(void *by) { cleaned += *(int *)by; }
void deed(int n)
{
	if (n == 1)
		pthread_exit(0);
	if (n == 3)
		for (;;)
			pause();
}
static int (*called)(int), given;
static void *thread(void *result)
{
	int one = 1;
	pthread_cleanup_push(clean, &one);
	*(int *)result = called(given);
	pthread_cleanup_pop(0);
	return 0;
}
int run(int (*outer)(int), int n)
{
	pthread_t id;
	int result = -1;
	called = outer, given = n;
	pthread_create(&id, 0, thread, &result);
	if (n == 3)
		usleep(100000), pthread_cancel(id);
	pthread_join(id, 0);
	return result + 100 * cleaned;
}
