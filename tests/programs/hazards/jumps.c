#include <setjmp.h>
static jmp_buf back;
void deed(int n)
{
	if (n % 2)
		longjmp(back, n);
}
int run(int (*outer)(int), int n)
{
	int left = setjmp(back);
	return left ? -left : outer(n);
}
