/* Calls functions on other stacks, and comes back, by assembly as FORM has it. Each stack has a
 * mapping of its own, with a guard page, as Rust's stacker makes them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, SIZE = 1 << 16, ROUNDS = 40, DEEPEST = 5 };

#define LIKE_PSM \
	"push %rbp; mov %rsp, %rbp; push %rcx; push %rcx; mov %rdi, %rax; mov %rsi, %rdi\n" \
	"mov %rdx, %rsp; call *%rax; lea -16(%rbp), %rsp; pop %rcx; pop %rcx\n" \
	"mov %rax, (%rcx); leave; ret"
typedef long Function(long);
void call_on(Function *function, long argument, char *top, long *result);

#ifdef FORM
asm(".text; .globl call_on; .type call_on, @function; call_on:\n" FORM "\n.size call_on, . - call_on");
#endif

#ifndef LIBRARY
#define FAR __attribute__((noinline))
static long calls;

static char *stacks[DEEPEST + 2];

static char *make_stack(void)
{
	char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(memory, PAGE, PROT_NONE);
	return memory + SIZE;
}

FAR long f_leaf(long n)
{
	calls++;
	return n * 7 + 1;
}

FAR long f_deep(long n);

FAR long f_inner(long n)
{
	long before = f_leaf(n);
	return (before + (n ? f_deep(n - 1) : 0)) % 1000003;
}

FAR long f_deep(long n)
{
	long result = 0;
	call_on(f_inner, n, stacks[n], &result);
	return result * 3 + f_leaf(result % 1000);
}

FAR long f_once(long n)
{
	long result = 0;
	call_on(f_leaf, n, stacks[DEEPEST + 1], &result);
	return result + 1;
}

static jmp_buf place;

FAR long f_left(long n)
{
	if (f_leaf(n) % 2)
		longjmp(place, 1);
	return n;
}

FAR long f_try(long n)
{
	long result = 0;
	if (setjmp(place))
		return f_leaf(n);
	call_on(f_left, n, stacks[DEEPEST], &result);
	return result;
}

FAR long f_outer(long n)
{
	return f_once(n) + f_try(n) + f_deep(n % DEEPEST) + f_leaf(n);
}

static void *run(void *sum)
{
	for (long n = 0; n < ROUNDS; n++)
		*(long *)sum += f_outer(n);
	return NULL;
}

int main(void)
{
	long sum = 0;
	pthread_t thread;

	for (int n = 0; n < DEEPEST + 2; n++)
		stacks[n] = make_stack();
	pthread_create(&thread, NULL, run, &sum);
	pthread_join(thread, NULL);
	printf("%ld %ld\n", sum, calls);
	return 0;
}
#endif
