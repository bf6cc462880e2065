/* A child leaves the call that it was forked in by a jump that no symbol tells of, and makes another
 * at the same frame. Each process prints its calls that return. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *where[5];
static int forks = 1;

__attribute__((noinline)) static void leave(void) { __builtin_longjmp(where, 1); }

__attribute__((noipa)) long one(long number)
{
	if (forks) {
		if (!fork())
			leave();
		wait(NULL);
	}
	return number * 3;
}

__attribute__((noipa)) static void call(long number)
{
	printf("%d one(%ld) = %ld\n", getpid(), number, one(number));
	fflush(stdout);
}

int main(void)
{
	if (!__builtin_setjmp(where)) {
		call(1);
	} else {
		forks = 0;
		call(9);
		_exit(0);
	}
	return 0;
}
