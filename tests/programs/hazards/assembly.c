/* Coroutines that switch stacks by assembly of their own, as Boost.Context does. */
#include <stdlib.h>
void switch_to(void **from, void *to);
#ifdef __x86_64__
__asm__(".text\n.globl switch_to\n.hidden switch_to\n.type switch_to, @function\nswitch_to:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
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
