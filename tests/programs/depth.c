/* Recursions deeper than the returns that the kernel keeps, some left by longjmp. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf home;

__attribute__((noipa)) long inner(long n)
{
	return n ? inner(n - 1) + 1 : 0;
}

__attribute__((noipa)) long outer(long n, long deeper)
{
	return n ? outer(n - 1, deeper) + 1 : inner(deeper);
}

__attribute__((noipa)) long leaves(long n)
{
	if (!n)
		longjmp(home, 1);
	return leaves(n - 1) + 1;
}

__attribute__((noipa)) long leaf(long n)
{
	return n + 1;
}

/* Jumps back to its first instruction, and calls leaf() in each round. */
long around(long rounds);
#if defined(__x86_64__)
#define AROUND "sub $1, %rdi\njs 1f\npush %rdi\ncall leaf\npop %rdi\njmp around\n1: mov $7, %eax\nret\n"
#else
#define AROUND "subs x0, x0, #1\nb.mi 1f\nstp x0, x30, [sp, #-16]!\nbl leaf\nldp x0, x30, [sp], #16\n" \
	"b around\n1: mov x0, #7\nret\n"
#endif
__asm__(".text\n.p2align 4\n.globl around\n.hidden around\n.type around, %function\naround:\n" AROUND
	".size around, .-around\n");

/* The arguments are pairs: a letter, and how deep. A line on standard input begins it. */
int main(int count, char **words)
{
	if (getchar() == EOF)
		return 1;
	for (int i = 1; i + 1 < count; i += 2) {
		const long depth = atol(words[i + 1]);

		if (*words[i] == 'o') /* as deep again in the inner one */
			printf("outer %ld\n", outer(depth, depth));
		else if (*words[i] == 'l' && !setjmp(home))
			leaves(depth);
		else if (*words[i] == 'f')
			for (long n = 0; n < depth; n++)
				leaf(n);
		else if (*words[i] == 'r')
			printf("around %ld\n", around(depth));
		else if (*words[i] == 'i')
			printf("inner %ld\n", inner(depth));
	}
	return 0;
}
