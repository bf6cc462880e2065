/* Random call graphs of processes that fork inside of calls, which log what is true of them.
 *
 * forks SEED LOG [BASE]: functions call each other at random, fork (and continue, return from the
 * calls that the parent made, end, execute this program), vfork, spawn, start threads and processes
 * on stacks of their own, throw and longjmp also out of calls that were made before a fork, and
 * handle signals on an alternate stack. Calls have numbers, from BASE on; LOG gets, at once,
 *
 *     enter PID TID NUMBER DEPTH          where PID makes a call
 *     leave PID TID NUMBER DEPTH RESULT   where it returns from one, whoever made it
 *     caught PID TID NUMBER 0             where it leaves those after NUMBER that are open
 *
 * Fibers return to where they were begun (uc_link), where a signal may come next. One function jumps
 * back to its first instruction.
 *
 * With HARMLESS it does nothing that uretprobes would harm: all calls return or are open at the end.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

struct landing {
	sigjmp_buf where;
	landing *around;
};

static int logged;
static const char *self, *log_path;
static long next_number, base;
static int generation, *processes; /* that may still begin, by whichever of them */
static __thread int nested, left, in_handler, catches;
static __thread unsigned long state;
static __thread landing *innermost;

static unsigned draw(unsigned bound)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (state >> 33) % bound;
}

static void note(const char *what, long number, int depth, const char *rest)
{
	char line[128];
	int size = snprintf(line, sizeof(line), "%s %d %ld %ld %d%s\n", what, getpid(),
			    syscall(SYS_gettid), number, depth, rest);

	if (write(logged, line, size) != size)
		abort();
}

static long another() { return __atomic_add_fetch(&next_number, 1, __ATOMIC_RELAXED); }

extern "C" {
long one(long number);
long two(long number);
long simple(long number);
long in_signal(long number);
long loops(long number, long rounds);
}

#if defined(__x86_64__)
#define LOOPS "sub $1, %rsi\njg loops\nlea (%rdi,%rdi,2), %rax\nret\n"
#else
#define LOOPS "subs x1, x1, #1\nb.gt loops\nadd x0, x0, x0, lsl #1\nret\n"
#endif
asm(".text\n.p2align 4\n.globl loops\n.type loops, %function\nloops:\n" LOOPS ".size loops, .-loops\n");

static void act(void);

static bool may_begin() { return __atomic_sub_fetch(processes, 1, __ATOMIC_RELAXED) >= 0; }

static long goes_round()
{
	const long number = another();
	char result[32];

	note("loops", number, nested, "");
	note("enter", number, nested, "");
	snprintf(result, sizeof(result), " %ld", loops(number, 1 + draw(100)));
	note("leave", number, nested, result);
	return number;
}

static long call()
{
	switch (draw(4)) {
	case 2: return goes_round();
	case 0: return one(another());
	case 1: return two(another());
	default: return simple(another());
	}
}

#ifdef HARMLESS
static void guarded() { act(); }
static void tried() { act(); }
#else
static void guarded()
{
	const int depth = nested, handling = in_handler, catching = catches;
	const long before = next_number;
	landing here;

	here.around = innermost;
	if (!sigsetjmp(here.where, 1)) {
		innermost = &here;
		catches = 0;
		act();
	} else {
		note("caught", before, 0, "");
	}
	innermost = here.around;
	nested = depth;
	in_handler = handling;
	catches = catching;
}

static void tried()
{
	const int depth = nested, handling = in_handler, catching = catches;
	const long before = next_number;
	landing *const around = innermost;

	try {
		innermost = nullptr;
		catches = 1;
		act();
	} catch (int) {
		note("caught", before, 0, "");
	}
	innermost = around;
	nested = depth;
	in_handler = handling;
	catches = catching;
}

static __thread ucontext_t *inside;

static void run_fiber() { act(); }

static void fiber()
{
	const int depth = nested, catching = catches;
	const size_t size = 1 << 18;
	ucontext_t back, there, *const outer = inside;
	landing *const around = innermost;
	void *stack = malloc(size);

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = size;
	there.uc_link = &back;
	makecontext(&there, run_fiber, 0);
	inside = &there;
	nested = catches = 0;
	innermost = nullptr;
	swapcontext(&back, &there);
	inside = outer;
	nested = depth;
	catches = catching;
	innermost = around;
	if (!in_handler && draw(2))
		raise(SIGUSR1);
	free(stack);
}
#endif

static void execute()
{
	char number[32], seed[32];

	snprintf(number, sizeof(number), "%ld", base + 1000000);
	snprintf(seed, sizeof(seed), "%u", draw(1 << 30));
	execl(self, self, seed, log_path, number, nullptr);
	_exit(3);
}

/* A child continues where it was forked, or ends at once, or after some calls. */
static void forks()
{
	const bool waits = draw(2);
	pid_t child = fork();

	if (child > 0) {
		if (waits)
			waitpid(child, nullptr, 0);
		return;
	}
	if (child < 0)
		return;
	generation++;
	left = generation > 2 ? 6 : 14;
	state += 99 + generation;
	switch (draw(8)) {
	case 0: _exit(0);
	case 1: act(); _exit(0);
	case 2: act(); if (base < 2000000) execute(); break;
	case 3: if (base < 2000000) execute(); break;
	case 4: if (may_begin()) forks(); break; /* before it does anything else */
	}
}

static void vforks()
{
	const int depth = nested, executing = draw(2);
	const unsigned long drawn = state;
	const long number = another();
	pid_t child = vfork();

	if (!child) {
		simple(number);
		if (executing)
			execl("/bin/true", "true", nullptr);
		_exit(0);
	}
	nested = depth;
	state = drawn;
	waitpid(child, nullptr, 0);
}

static void spawns()
{
	pid_t child;
	char number[32];
	char program[4096], path[4096], seed[32];
	char *words[] = {program, seed, path, number, nullptr};

	snprintf(program, sizeof(program), "%s", self);
	snprintf(path, sizeof(path), "%s", log_path);
	snprintf(number, sizeof(number), "%ld", base + 1000000);
	snprintf(seed, sizeof(seed), "%u", draw(1 << 30));
	if (!posix_spawn(&child, self, nullptr, nullptr, words, environ))
		waitpid(child, nullptr, 0);
}

static int on_its_own(void *)
{
	nested = in_handler = catches = 0;
	innermost = nullptr;
	generation++;
	left = 5;
	tried();
	_exit(0);
}

/* A process that begins on a stack of its own, as threads do. */
static void clones()
{
	const size_t size = 1 << 18;
	void *stack = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child = clone(on_its_own, (char *)stack + size, SIGCHLD, nullptr);

	if (child > 0)
		waitpid(child, nullptr, 0);
	munmap(stack, size);
}

static void *run_thread(void *seed)
{
	state = (unsigned long)seed;
	left = 6;
	tried();
	return nullptr;
}

static void starts_thread()
{
	pthread_t thread;

	if (!pthread_create(&thread, nullptr, run_thread, (void *)(unsigned long)draw(1 << 30)))
		pthread_join(thread, nullptr);
}

static void act()
{
	for (unsigned n = draw(4) + 1; n--;) {
		if (nested > 20 || --left <= 0)
			return;
		switch (draw(21)) {
		case 0: guarded(); break;
		case 1: tried(); break;
#ifndef HARMLESS
		case 12:
			if (!getenv("FORKS_WITHOUT_FIBERS"))
				fiber();
			break;
		case 2: if (innermost && !in_handler) siglongjmp(innermost->where, 1); break;
		case 3: if (catches && !in_handler) throw 1; break;
#endif
		case 4: if (!in_handler) raise(SIGUSR1); break;
		case 5: case 6: case 7: if (may_begin()) forks(); break;
		case 8: if (may_begin()) vforks(); break;
		case 9: if (base < 2000000 && may_begin()) spawns(); break;
		case 10: if (may_begin()) clones(); break;
		case 11: if (!in_handler) starts_thread(); break;
		default: call();
		}
	}
}

static void on_signal(int)
{
	in_handler++;
	in_signal(another());
	in_handler--;
}

#define BODY(acts)                                                                                 \
	volatile char room[16 + draw(64)];                                                         \
	const int depth = nested++;                                                                \
	char result[32];                                                                           \
	room[0] = 1;                                                                               \
	note("enter", number, depth, "");                                                          \
	acts;                                                                                      \
	nested = depth;                                                                            \
	snprintf(result, sizeof(result), " %ld", number * 3 + getpid());                           \
	note("leave", number, depth, result);                                                      \
	return number * 3 + getpid() + (room[0] - 1);

__attribute__((noipa)) long one(long number) { BODY(act()) }
__attribute__((noipa)) long two(long number) { BODY(act()) }
__attribute__((noipa)) long in_signal(long number) { BODY(act()) }
__attribute__((noipa)) long simple(long number) { BODY() }

int main(int argc, char **argv)
{
	struct sigaction action = {};
	stack_t alternate = {};
	const pid_t first = getpid();

#ifndef HARMLESS
	sigjmp_buf begin;
	sigsetjmp(begin, 1); /* what a program does that another one executes may not be a call */
#endif
	log_path = argv[2];
	logged = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
	state = atol(argv[1]) * 2654435761UL + 1;
	next_number = base = argc > 3 ? atol(argv[3]) : 0;
	self = argv[0];
	processes = (int *)mmap(nullptr, sizeof(*processes), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*processes = base ? 2 : 30;
	action.sa_handler = on_signal;
	action.sa_flags = SA_ONSTACK | SA_NODEFER;
	sigaction(SIGUSR1, &action, nullptr);
	alternate.ss_size = 1 << 18;
	alternate.ss_sp = malloc(alternate.ss_size);
#ifndef HARMLESS
	if (draw(2))
		sigaltstack(&alternate, nullptr);
#endif
	for (int n = 0; n < (base ? 2 : 10) && getpid() == first && !generation; n++) {
		left = base ? 8 : 30;
		tried();
	}
	while (wait(nullptr) > 0)
		;
	return 0;
}
