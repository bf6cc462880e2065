/* Calls that are left by what compilers make of __builtin_longjmp, in a thread as well. */
#include <pthread.h>
#include <stdio.h>

#define TRACED __attribute__((noipa))

static __thread void *place[5];
static __thread int sum;

TRACED int f_leaf(int n) { return n * 3; }
TRACED int f_deep(int n)
{
	char room[20 + n];

	room[n] = 1;
	__asm__ volatile("" :: "r"(room) : "memory");
	if (!n)
		__builtin_longjmp(place, 1);
	int result = f_deep(n - 1);
	return result + f_leaf(n) + room[n];
}
TRACED int f_try(int n)
{
	if (__builtin_setjmp(place))
		return f_leaf(n);
	return f_deep(n) + 1;
}
TRACED int f_after(int n) { return f_try(n) + f_leaf(n); }

static void *run(void *nothing)
{
	for (sum = 0; sum < 6; sum++)
		printf("%d\n", f_after(sum));
	return nothing;
}

int main(void)
{
	pthread_t thread;

	run(NULL);
	pthread_create(&thread, NULL, run, NULL);
	pthread_join(thread, NULL);
	return 0;
}
