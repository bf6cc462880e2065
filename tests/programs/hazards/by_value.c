/* Coroutines whose contexts are passed on the stack, and restored from there by RESUME. */
#include <stdio.h>
#include <stdlib.h>
#define TRACED __attribute__((noipa))
struct context { void *sp; long bp, bx, r12, r13, r14, r15; void *at; };
TRACED __attribute__((returns_twice)) int save(struct context *);
TRACED void resume(struct context);
__asm__(".text\n.type save, @function\nsave:\n"
	"mov %rbp, 8(%rdi); mov %rbx, 16(%rdi); mov %r12, 24(%rdi); mov %r13, 32(%rdi)\n"
	"mov %r14, 40(%rdi); mov %r15, 48(%rdi); lea 8(%rsp), %rax; mov %rax, (%rdi)\n"
	"mov (%rsp), %rax; mov %rax, 56(%rdi); xor %eax, %eax; ret\n.size save, . - save\n"
	".type resume, @function\nresume:\n"
	"mov 24(%rsp), %rbx; mov 32(%rsp), %r12; mov 40(%rsp), %r13; mov 48(%rsp), %r14\n"
	"mov 56(%rsp), %r15; mov 64(%rsp), %rdx\n" RESUME "\nmov $1, %eax; jmp *%rdx\n"
	".size resume, . - resume\n");
enum { COROUTINES = 4, ROUNDS = 20 };
static struct context home, away[COROUTINES];
static int turn, sum;
TRACED static void change(struct context *from, struct context *to)
{
	if (!save(from))
		resume(*to);
}
TRACED int f_leaf(int n) { return n * 3; }
TRACED int f_inner(int n)
{
	int me = turn, result = f_leaf(n);
	change(&away[me], &home);
	return result + f_leaf(me);
}
TRACED int f_outer(int n)
{
	int result = f_inner(n);
	return result + f_inner(n + 1);
}
static void coroutine(void)
{
	for (;;)
		sum += f_outer(sum % 100);
}
int main(void)
{
	for (int i = 0; i < COROUTINES; i++) {
		char *stack = malloc(65536);
		away[i].sp = (void *)((((unsigned long)stack + 65536 - 64) & -16ul) - 8);
		away[i].at = (void *)coroutine;
	}
	for (int round = 0; round < ROUNDS; round++)
		for (turn = 0; turn < COROUTINES; turn++)
			change(&home, &away[turn]);
	printf("%d\n", sum);
	return 0;
}
