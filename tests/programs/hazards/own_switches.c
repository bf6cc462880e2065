/* Calls that are left (LEAVE), or coroutines (CHANGE), by assembly of the program's own; NAMED: that
   has symbols with types, and is described to unwinders. */
#include <stdio.h>
#include <stdlib.h>
#define TRACED __attribute__((noipa))
#ifdef NAMED
#define BEGIN(name) ".p2align 4\n.globl " #name "\n.hidden " #name "\n" \
	".type " #name ", @function\n" #name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " #name ", . - " #name "\n"
#else
#define BEGIN(name) ".p2align 4\n.globl " #name "\n.hidden " #name "\n" #name ":\n"
#define END(name)
#endif

TRACED int f_leaf(int n) { return n * 3; }
#ifdef LEAVE
typedef void *buffer[8];
int save(buffer) __attribute__((returns_twice));
void leave_to(buffer, int) __attribute__((noreturn));
__asm__(".text\n" BEGIN(save)
	"mov %rbx, (%rdi)\nmov %rbp, 8(%rdi)\nmov %r12, 16(%rdi)\nmov %r13, 24(%rdi)\n"
	"mov %r14, 32(%rdi)\nmov %r15, 40(%rdi)\nlea 8(%rsp), %rdx\nmov %rdx, 48(%rdi)\n"
	"mov (%rsp), %rdx\nmov %rdx, 56(%rdi)\nxor %eax, %eax\nret\n"
	END(save) BEGIN(leave_to)
	"mov (%rdi), %rbx\nmov 8(%rdi), %rbp\nmov 16(%rdi), %r12\nmov 24(%rdi), %r13\n"
	"mov 32(%rdi), %r14\nmov 40(%rdi), %r15\nmov %esi, %eax\n" LEAVE "\n"
	END(leave_to));
static buffer place;
static int sum;
TRACED int f_deep(int n)
{
	if (!n)
		leave_to(place, 1 + sum % 5);
	int result = f_deep(n - 1);
	return result + f_leaf(n);
}
TRACED int f_try(int n)
{
	int left = save(place);
	if (left)
		return left + f_leaf(n);
	left = f_deep(n);
	return left + 1;
}
TRACED int f_after(int n) { return f_try(n) + f_leaf(n); }
int main(void)
{
	for (; sum < 6; sum++)
		printf("%d\n", f_after(sum));
	return 0;
}
#else
void change(void **from, void *to);
__asm__(".text\n" BEGIN(change)
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\nmov %rsp, (%rdi)\n"
	CHANGE "\n"
	END(change) BEGIN(back)
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
	END(back));
static void *home, *away[2];
static int turn, results[2];
TRACED int f_inner(int n)
{
	int me = turn;
	change(&away[me], home);
	return n + f_leaf(me);
}
TRACED int f_outer(int n)
{
	int result = f_inner(n);
	return result + f_inner(n + 1);
}
static void coroutine(void)
{
	int me = turn;
	results[me] = f_outer(me);
	for (;;)
		change(&away[turn], home);
}
int main(void)
{
	for (int i = 0; i < 2; i++) {
		void **top = (void **)((char *)malloc(65536) + 65536 - 64);
		*top = 0;
		*--top = (void *)coroutine;
		away[i] = top - 6;
	}
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 2; i++)
			turn = i, change(&home, away[i]);
	printf("%d %d\n", results[0], results[1]);
	return 0;
}
#endif
