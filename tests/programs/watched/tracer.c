/* Watches the system calls of a child, then emulates those of another, as sandboxes do. */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int work(int number)
{
	asm volatile("" ::: "memory");
	return number + 1;
}

__attribute__((noinline)) static void be_watched(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
}

static int child(void)
{
	int sum = 0;

	be_watched();
	for (int i = 0; i < 5; i++)
		sum += work(i);
	syscall(SYS_getppid);
	syscall(SYS_exit, sum);
	return 1;
}

/* Prints the stops of a child that goes on by ``request``. */
static void watch(int request)
{
	int status, pid = fork();

	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	for (int stops = 0; stops < 50; stops++) {
		struct __ptrace_syscall_info info = {0};

		ptrace(request, pid, 0, 0);
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
		ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			printf("%llu\n", (unsigned long long)info.entry.nr);
		else
			printf("stopped by %d\n", WSTOPSIG(status));
		if (request == PTRACE_SYSEMU && info.entry.nr == SYS_exit)
			kill(pid, SIGKILL);
	}
	printf("status %d\n", status);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	watch(PTRACE_SYSCALL);
	watch(PTRACE_SYSEMU);
	return 0;
}
