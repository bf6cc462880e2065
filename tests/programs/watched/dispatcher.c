/* Serves its system calls itself, as Wine does those of Windows programs (x86-64). */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static volatile char blocked;
static volatile int served;

static void serve(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	blocked = 0;
	served++;
}

__attribute__((noinline)) static int work(int number)
{
	asm volatile("" ::: "memory");
	return number + 1;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = serve, .sa_flags = SA_SIGINFO};
	int sum = 0;

	sigaction(SIGSYS, &action, NULL);
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0L, 0L, &blocked)) {
		puts("this kernel cannot");
		return 0;
	}
	for (int i = 0; i < 10; i++) {
		blocked = 1;
		sum += work(i);
		blocked = 0;
	}
	blocked = 1;
	syscall(SYS_getppid);
	blocked = 0;
	printf("%d, %d served\n", sum, served);
	return 0;
}
