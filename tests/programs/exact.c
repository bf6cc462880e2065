/* Calls that are hard to trace, each with the program's own account of them.
 *
 *     exact LOG MODE [N [THREADS]]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "shadow.h"

static volatile long sink;

/* ------------------------------------------------------------- recursion */

/* Beside these calls no uretprobe is taken; with HARMLESS it can be asked for. */
#ifdef HARMLESS
#define SWITCH(call) (abort(), 0)
#else
#define SWITCH(call) call
#endif

TRACED long traced_deep(long n)
{
	ENTER(n);
	if (n == 0)
		RETURN(0);
	RETURN(traced_deep(n - 1) + 1);
}

long traced_odd(long n);
TRACED long traced_even(long n)
{
	ENTER(n);
	if (n == 0)
		RETURN(1);
	RETURN(traced_odd(n - 1) + 0);
}

TRACED long traced_odd(long n)
{
	ENTER(n);
	if (n == 0)
		RETURN(0);
	RETURN(traced_even(n - 1) + 0);
}

TRACED long traced_ackermann(long m, long n)
{
	ENTER(m);
	if (m == 0)
		RETURN(n + 1);
	if (n == 0)
		RETURN(traced_ackermann(m - 1, 1));
	RETURN(traced_ackermann(m - 1, traced_ackermann(m, n - 1)));
}

/* ------------------------------------------------- code of many a shape */

static const char *volatile words[] = {"zero", "one", "two", "three", "four", "five", "six", "seven"};

TRACED __attribute__((cold)) long traced_rare(long n)
{
	ENTER(n);
	RETURN(n * 1000);
}

TRACED long traced_switch(long n)
{
	ENTER(n);
	switch (n) {
	case 0: sink += 3; RETURN(strlen(words[0]));
	case 1: sink ^= 5; RETURN(strlen(words[1]) + 10);
	case 2: sink *= 7; RETURN(strlen(words[2]) + 20);
	case 3: sink -= 9; RETURN(strlen(words[3]) + 30);
	case 4: sink |= 2; RETURN(strlen(words[4]) + 40);
	case 5: sink &= 4; RETURN(strlen(words[5]) + 50);
	case 6: sink += 6; RETURN(strlen(words[6]) + 60);
	}
	if (__builtin_expect(n > 100, 0)) {
		sink += traced_rare(n);
		RETURN(-n);
	}
	RETURN(n);
}

TRACED long traced_returns(long n)
{
	ENTER(n);
	if (n < 0)
		RETURN(-1);
	if (n == 0)
		RETURN(0);
	for (long i = 2; i * i <= n; i++)
		if (n % i == 0)
			RETURN(i);
	if (n > 90)
		RETURN(traced_switch(n) + 1);
	RETURN(n);
}

static void shapes(long rounds)
{
	for (long i = 0; i < rounds; i++)
		sink += traced_switch(i % 12) + traced_switch(i % 120) + traced_returns(i % 100 - 3);
}

/* --------------------------------------------------------------- longjmp */

long traced_last(long n);

/* What it calls lies deeper than what was left. */
static APART void aside(long n)
{
	volatile char room[1024];
	room[n & 1023] = 0;
	sink += traced_last(n) + room[n & 1023];
}

static jmp_buf buffer;

TRACED long traced_jumper(long n)
{
	ENTER(n);
	if (n == 0)
		longjmp(buffer, 1);
	RETURN(traced_jumper(n - 1) + 1);
}

TRACED long traced_catcher(long n)
{
	ENTER(n);
	int depth = shadow->depth;
	long got = 0;
	if (!setjmp(buffer))
		got = traced_jumper(n);
	else {
		shadow_unwound(depth);
		aside(n);
	}
	RETURN(traced_deep(2) + got);
}

static APART void catch_untraced(long n)
{
	int depth = shadow->depth;
	if (!setjmp(buffer))
		sink += traced_jumper(n);
	shadow_unwound(depth);
	aside(n);
}

TRACED long traced_above(long n)
{
	ENTER(n);
	catch_untraced(n);
	RETURN(traced_catcher(n));
}

/* ------------------------------------------------------------ tail calls */

TRACED long traced_last(long n)
{
	ENTER(n);
	RETURN(n * 2);
}

typedef long (*function)(long);
#ifdef HARMLESS /* what is jumped to through a pointer may read its return address */
#define indirect traced_last
#else
static function volatile indirect = traced_last;
#endif

static int is_afar; /* traced_first is called where a return to is not seen */

TRACED long traced_third(long n)
{
	ENTER(n);
	if (is_afar)
		shadow_jump_away();
	else
		shadow_jump();
	return indirect(n + 1);
}

TRACED long traced_second(long n)
{
	ENTER(n);
	if (n % 5 == 0)
		RETURN(n);
	shadow_jump();
	return traced_third(n + 1);
}

TRACED long traced_first(long n)
{
	ENTER(n);
	sink += traced_last(n);
	shadow_jump();
	return traced_second(n + 1);
}

static function volatile afar = traced_first;

static long tail(long n)
{
	is_afar = n & 1;
	return is_afar ? afar(n) : traced_first(n);
}

/* ---------------------------------------------------------- stack switches */

#include "fibers.h"

#define FIBER_STACK (64 << 10)
static ucontext_t contexts[3];

static void prepare(int fiber)
{
	SWITCH(getcontext(&contexts[fiber]));
	contexts[fiber].uc_stack.ss_sp = malloc(FIBER_STACK);
	contexts[fiber].uc_stack.ss_size = FIBER_STACK;
	SWITCH(makecontext(&contexts[fiber], run_fiber, 0));
}

static void change_stacks(int from, int to)
{
	SWITCH(swapcontext(&contexts[from], &contexts[to]));
}

/* ---------------------------------------------------------------- signals */

static sigjmp_buf away;
static long leave_handler;

TRACED long traced_handler(long n)
{
	ENTER(n);
	sink += traced_last(n);
	if (leave_handler)
		siglongjmp(away, 1);
	RETURN(traced_deep(2));
}

static void handler(int number)
{
	sink += traced_handler(number);
}

TRACED long traced_interrupted(long n)
{
	ENTER(n);
	sink += traced_last(n);
	raise(SIGUSR1);
	sink += traced_last(n + 1);
	raise(SIGUSR1);
	RETURN(traced_last(n + 2));
}

static void signals(int alternate, long n)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = alternate ? SA_ONSTACK : 0};
	stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};

	if (alternate)
		SWITCH(sigaltstack(&stack, NULL));
	sigaction(SIGUSR1, &action, NULL);
	sink += traced_interrupted(n);
	int depth = shadow->depth;
	leave_handler = 1;
	if (!sigsetjmp(away, 1))
		traced_interrupted(n + 100);
	shadow_unwound(depth);
	sink += traced_last(n);
}

/* ------------------------------------------------------------- other ends */

static const char *self;

TRACED long traced_ending(long n)
{
	ENTER(n);
	sink += traced_last(n);
	shadow_write();
	if (n == 1)
		abort();
	if (n == 2)
		SWITCH(execl(self, self, shadow_path, "deep", "5", NULL));
	if (n == 3)
		exit(3);
	if (n == 4)
		SWITCH(pthread_exit(NULL));
	return 0;
}

TRACED long traced_outer(long n)
{
	ENTER(n);
	return traced_ending(n) + 1;
}

static void *ending_thread(void *argument)
{
	shadow_new(THREAD_ID());
	traced_outer((long)argument);
	return NULL;
}

TRACED long traced_forking(long n)
{
	ENTER(n);
	pid_t child = SWITCH(fork());
	if (child == 0) {
		shadow_fork(THREAD_ID());
		sink += traced_deep(n);
		shadow_write();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	RETURN(traced_deep(n) + 1);
}

static void *working_thread(void *argument)
{
	shadow_new(THREAD_ID());
	sink += traced_deep((long)argument % 100);
	shapes(20);
	shadow_write();
	return NULL;
}

static void *busy_thread(void *argument)
{
	shadow_new(THREAD_ID());
	shapes((long)argument);
	shadow_write();
	return NULL;
}

static void threads(long count, void *(*work)(void *), int same)
{
	pthread_t all[256];
	for (long i = 0; i < count; i++)
		pthread_create(&all[i], NULL, work, (void *)(same ? same : i));
	for (long i = 0; i < count; i++)
		pthread_join(all[i], NULL);
}

/* Strict confinement allows to write and to end the thread. */
static void shadow_confined(void)
{
	if (write(shadow_file, shadow->log, shadow->used) != (ssize_t)shadow->used)
		abort();
	SWITCH(syscall(SYS_exit, 0));
}

int main(int argc, char **argv)
{
	const char *mode = argv[2];
	long n = argc > 3 ? atol(argv[3]) : 0;

	self = argv[0];
	shadow_start(argv[1]);
	if (!strcmp(mode, "confined"))
		shadow_reserve();
	if (!strcmp(mode, "deep"))
		sink += traced_deep(n);
	else if (!strcmp(mode, "mutual"))
		sink += traced_even(n);
	else if (!strcmp(mode, "ackermann"))
		sink += traced_ackermann(2, n);
	else if (!strcmp(mode, "shapes"))
		shapes(n);
	else if (!strcmp(mode, "longjmp"))
		for (long i = 0; i < n; i++)
			sink += traced_above(i);
	else if (!strcmp(mode, "tail"))
		for (long i = 0; i < n; i++)
			sink += tail(i);
	else if (!strcmp(mode, "contexts"))
		run_fibers(n);
	else if (!strcmp(mode, "signal"))
		signals(0, n);
	else if (!strcmp(mode, "altsignal"))
		signals(1, n);
	else if (!strcmp(mode, "ending"))
		traced_outer(n);
	else if (!strcmp(mode, "ending-thread"))
		threads(1, ending_thread, 4);
	else if (!strcmp(mode, "busy"))
		threads(argc > 4 ? atol(argv[4]) : 4, busy_thread, n);
	else if (!strcmp(mode, "fork"))
		sink += traced_forking(n);
	else if (!strcmp(mode, "confined")) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		sink += traced_returns(n);
		shadow_confined();
	} else if (!strcmp(mode, "threads"))
		threads(n, working_thread, 0);
	else
		return 2;
	if (strcmp(mode, "contexts"))
		shadow_write();
	return 0;
}
