/* Calls that take turns: what docs/lines.md shows. */

#include <stdio.h>

static int larger(int a, int b);

__attribute__((noinline)) static int smaller(int a, int b)
{
	int ret;

	if (a > 20)
		ret = a - b;
	else
		ret = larger(a + b, 2);
	return ret;
}

__attribute__((noinline)) static int larger(int a, int b)
{
	int ret = a * b;

	if (ret < 100)
		ret = smaller(ret, b);
	return ret;
}

__attribute__((noinline)) int traceme(int n)
{
	int ret = larger(n, 3);

	if (ret > 50)
		ret = ret % 7;
	return ret;
}

__attribute__((noinline)) int traceme2(int n)
{
	int ret;

	ret = traceme(n);
	return ret + 1;
}

static volatile int first = 12;

int main(void)
{
	int n = first;

	printf("%d\n", traceme(n));
	printf("%d\n", traceme2(n + 1));
	return 0;
}
