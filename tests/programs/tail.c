/* Functions that jump to each other at their end, where compilers do that. */
#define TRACED __attribute__((noipa)) long

volatile long sink;

TRACED leaf(long n)
{
	sink = n;
	return n;
}

TRACED last(long n)
{
	return leaf(n) + leaf(n + 1);
}

TRACED outer(long n)
{
	sink = n;
	return last(n + 1);
}

TRACED jumps(long n)
{
	sink = n;
	return outer(n + 1);
}

int main(void)
{
	long n = leaf(1) + outer(10) + last(20) + jumps(30) + leaf(40);

	return n == 5;
}
