#include "launch.h"

#include <errno.h>
#include <sys/syscall.h>

#define LBT_FAILED 127 /* the exit status of a shell that cannot execute a command */

static long lbt_call(long number, long first, const void *second, const void *third)
{
	/* Where Python's headers are those of x86-64, other machines define its name as well. */
#ifdef __aarch64__
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = first;
	register long x1 __asm__("x1") = (long)second;
	register long x2 __asm__("x2") = (long)third;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#else
	long result = number;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
#endif
}

/* Whether execvp(3) continues with the next directory after this error. */
static int lbt_is_elsewhere(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ESTALE || error == ENODEV ||
	       error == ETIMEDOUT;
}

/* Returns the error number of the first failure that says more than that nothing is there. */
static int lbt_execute(char *const *paths, char *const *words, char **script,
		       char *const *variables)
{
	int refused = 0, error = ENOENT;

	for (; *paths; paths++) {
		error = (int)-lbt_call(SYS_execve, (long)*paths, words, variables);
		if (error == ENOEXEC) {
			script[1] = *paths;
			return (int)-lbt_call(SYS_execve, (long)script[0], script, variables);
		}
		if (error == EACCES)
			refused = error;
		else if (!lbt_is_elsewhere(error))
			return error;
	}
	return refused ? refused : error;
}

void lbt_launch(int gate, int report, char *const *paths, char *const *words, char **script,
		char *const *variables)
{
	char byte = LBT_HELD;
	long got;
	int error;

	lbt_call(SYS_write, report, &byte, (const void *)1);
	do
		got = lbt_call(SYS_read, gate, &byte, (const void *)1);
	while (got == -EINTR);
	if (got == 1) { /* else lbtrace has gone */
		error = lbt_execute(paths, words, script, variables);
		lbt_call(SYS_write, report, &error, (const void *)sizeof(error));
	}
	for (;;)
		lbt_call(SYS_exit_group, LBT_FAILED, 0, 0);
}
