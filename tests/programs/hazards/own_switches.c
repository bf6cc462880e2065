/* Calls that are left by assembly of the program's own, LEAVE; NAMED: that has symbols with types, and
   is described to unwinders. */
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
