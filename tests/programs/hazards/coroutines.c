/* Four coroutines that wait inside of calls: switched by contexts of the C library (CONTEXTS), by
 * handlers of signals as in QEMU (SIGNALS), or by assembly as Boost's. Their stacks are mappings,
 * each with a guard page, or ON_HEAP. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 1 << 16 };
static volatile int running, done[4];
static void run(void);

static char *make_stack(void)
{
#ifdef ON_HEAP
	return aligned_alloc(16, SIZE);
#else
	char *memory = mmap(0, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(memory, PAGE, PROT_NONE);
	return memory + PAGE;
#endif
}

#if defined(CONTEXTS)
static ucontext_t home, places[4];

static void make(int me)
{
	getcontext(&places[me]);
	places[me].uc_stack.ss_sp = make_stack();
	places[me].uc_stack.ss_size = SIZE;
	makecontext(&places[me], run, 0);
}

static void resume(int me) { swapcontext(&home, &places[me]); }
static void wait_for_others(void) { swapcontext(&places[running], &home); }

#elif defined(SIGNALS)
static sigjmp_buf home, places[4];

static void begin(int number)
{
	(void)number;
	if (sigsetjmp(places[running], 0))
		run();
}

static void make(int me)
{
	stack_t stack = {.ss_sp = make_stack(), .ss_size = SIZE};
	struct sigaction action = {.sa_handler = begin, .sa_flags = SA_ONSTACK};

	running = me;
	sigaltstack(&stack, 0);
	sigaction(SIGUSR1, &action, 0);
	raise(SIGUSR1);
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, 0);
}

static void resume(int me)
{
	if (!sigsetjmp(home, 0))
		siglongjmp(places[me], 1);
}

static void wait_for_others(void)
{
	if (!sigsetjmp(places[running], 0))
		siglongjmp(home, 1);
}

#else
void change(void **from, void *to);
asm(".text; .type change, @function\n"
    "change: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
    "mov %rsp, (%rdi); mov %rsi, %rsp\n"
    "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n"
    ".size change, . - change\n");
static void *home, *places[4];

__attribute__((noipa)) void *make_fcontext(void *top, size_t size, void (*begin)(void))
{
	void **at = top;

	(void)size;
	*--at = 0;
	*--at = (void *)begin;
	return at - 6;
}

static void make(int me) { places[me] = make_fcontext(make_stack() + SIZE, SIZE, run); }
static void resume(int me) { change(&home, places[me]); }
static void wait_for_others(void) { change(&places[running], home); }
#endif

__attribute__((noinline)) long work(long me, long depth)
{
	wait_for_others();
	long result = depth ? work(me, depth - 1) + me : 100;
	wait_for_others();
	return result;
}

static void run(void)
{
	int me = running;

	printf("%ld\n", work(me, 2 + me));
	done[me] = 1;
	for (;;)
		wait_for_others();
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < rounds; i++) {
		for (running = 0; running < 4; running++)
			done[running] = 0, make(running);
		for (int left = 4; left;) {
			left = 0;
			for (running = 0; running < 4; running++)
				if (!done[running])
					left++, resume(running);
		}
		if (rounds > 1)
			usleep(2000);
	}
	return 0;
}
