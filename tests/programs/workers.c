/*
 * Prints the pids of four workers that it forks. At a line of input worker N calls work(), passes a
 * marker and calls getppid(2) (N + 1) * 10 times, and forks a child that does so once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 4

__attribute__((noinline)) long work(long n)
{
	__asm__ volatile("" : : "r"(n));
	return n + 1;
}

__attribute__((noinline)) static void step(long n)
{
	work(n);
	DTRACE_PROBE1(workers, done, n);
	syscall(SYS_getppid);
}

static void serve(int begin, int number)
{
	char go;

	if (read(begin, &go, 1) != 1)
		_exit(1);
	for (long n = 0; n < 10 * (number + 1); n++)
		step(n);
	if (!fork()) {
		step(-1);
		_exit(0);
	}
	wait(NULL);
	_exit(0);
}

int main(void)
{
	int begin[WORKERS][2];

	for (int i = 0; i < WORKERS; i++) {
		pid_t worker;

		if (pipe(begin[i]) || (worker = fork()) < 0)
			return 1;
		if (!worker)
			serve(begin[i][0], i);
		printf("%d\n", worker);
	}
	fflush(stdout);
	getchar();
	for (int i = 0; i < WORKERS; i++)
		if (write(begin[i][1], "g", 1) != 1)
			return 1;
	while (wait(NULL) > 0)
		;
	getchar();
	return 0;
}
