/* Coroutines that switch stacks by assembly of their own; MOVES_ON: as Boost.Context does. */
#include <stdlib.h>
void switch_to(void **from, void *to);
#ifdef __x86_64__
__asm__(".text\n.globl switch_to\n.hidden switch_to\n.type switch_to, @function\nswitch_to:\n"
#ifdef MOVES_ON
	"lea -48(%rsp), %rsp\nmov %r15, (%rsp)\nmov %r14, 8(%rsp)\nmov %r13, 16(%rsp)\n"
	"mov %r12, 24(%rsp)\nmov %rbx, 32(%rsp)\nmov %rbp, 40(%rsp)\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"mov (%rsp), %r15\nmov 8(%rsp), %r14\nmov 16(%rsp), %r13\nmov 24(%rsp), %r12\n"
	"mov 32(%rsp), %rbx\nmov 40(%rsp), %rbp\nmov 48(%rsp), %r8\nlea 56(%rsp), %rsp\njmp *%r8\n"
#else
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
#endif
	".size switch_to, . - switch_to\n");
#endif
static void *home, *away[2];
static int (*called)(int), results[2], turn = 2;
static void coroutine(void)
{
	int me = turn;
	results[me] = called(me + 1);
	turn = 2;
	switch_to(&away[me], home);
}
void deed(int n)
{
	(void)n;
	if (turn < 2)
		switch_to(&away[turn], home);
}
int run(int (*outer)(int), int n)
{
	if (!n)
		return outer(n);
	called = outer;
	for (int i = 0; i < 2; i++) {
		void **top = (void **)((char *)malloc(65536) + 65536 - 64);
		*top = 0;
		*--top = (void *)coroutine;
		away[i] = top - 6;
	}
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 2; i++)
			turn = i, switch_to(&home, away[i]);
	turn = 2;
	return results[0] * 1000 + results[1];
}
