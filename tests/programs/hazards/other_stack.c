/* Calls functions on other stacks, and comes back, by assembly as FORM has it. AREA says where these
 * lie: above or below the thread's own, or in the frame of a function that waits. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, SIZE = 1 << 20, ROUNDS = 40, DEEPEST = 5 };

#define LIKE_PSM \
	"push %rbp; mov %rsp, %rbp; push %rcx; push %rcx; mov %rdi, %rax; mov %rsi, %rdi\n" \
	"mov %rdx, %rsp; call *%rax; lea -16(%rbp), %rsp; pop %rcx; pop %rcx\n" \
	"mov %rax, (%rcx); leave; ret"
#define BY_LEAVE \
	"push %rbp; mov %rsp, %rbp; push %rbx; mov %rcx, %rbx; mov %rdi, %rax; mov %rsi, %rdi\n" \
	"mov %rdx, %rsp; call *%rax; mov %rax, (%rbx); mov -8(%rbp), %rbx; leave; ret"
#define IN_REGISTER \
	"push %rbx; push %r12; mov %rcx, %r12; mov %rsp, %rbx; mov %rdi, %rax; mov %rsi, %rdi\n" \
	"mov %rdx, %rsp; call *%rax; mov %rbx, %rsp; mov %rax, (%r12); pop %r12; pop %rbx; ret"
#define ON_THE_OTHER \
	"push %rcx; mov %rdi, %rax; mov %rsi, %rdi; sub $16, %rdx; mov %rsp, (%rdx)\n" \
	"mov %rdx, %rsp; call *%rax; mov (%rsp), %rsp; pop %rcx; mov %rax, (%rcx); ret"
#define BY_CELL \
	"push %rbp; mov %rsp, %rbp; push %rcx; push %rcx; mov %rdi, %rax; mov %rsi, %rdi\n" \
	"mov %rdx, top(%rip); mov top(%rip), %rsp; call *%rax; lea -16(%rbp), %rsp\n" \
	"pop %rcx; pop %rcx; mov %rax, (%rcx); leave; ret; .local top; .comm top, 8"

typedef long Function(long);
void call_on(Function *function, long argument, char *top, long *result);

#ifdef FORM
asm(".text; .globl call_on; .type call_on, @function; call_on:\n" FORM "\n.size call_on, . - call_on");
#elif !defined(USES_LIBRARY)
void call_on(Function *function, long argument, char *top, long *result)
{
	long returned;
	__asm__ volatile("mov %%rsp, %%rbx; mov %3, %%rsp; call *%1; mov %%rbx, %%rsp"
			 : "=a"(returned)
			 : "r"(function), "D"(argument), "r"(top)
			 : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	*result = returned;
}
#endif

#ifndef LIBRARY
#define FAR __attribute__((noinline))
static char *area;
static long calls;

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
	call_on(f_inner, n, area - n * PAGE, &result);
	return result * 3 + f_leaf(result % 1000);
}

struct stack {
	char *top;
};

FAR void find_stack(struct stack *found)
{
	found->top = area - 16 * PAGE;
}

FAR long f_once(long n)
{
	struct stack stack;
	long result = 0;
	find_stack(&stack);
	call_on(f_leaf, n, stack.top, &result);
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
	call_on(f_left, n, area - 32 * PAGE, &result);
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
#ifdef IN_FRAME
	char frame[SIZE / 2];
	area = (char *)((unsigned long)(frame + sizeof frame) & -16L);
	run(&sum);
#else
	char *memory = mmap(0, 4 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, memory + SIZE, SIZE);
	area = memory + (ABOVE ? 4 : 1) * SIZE - PAGE;
	pthread_create(&thread, &attributes, run, &sum);
	pthread_join(thread, NULL);
#endif
	printf("%ld %ld\n", sum, calls);
	return 0;
}
#endif
