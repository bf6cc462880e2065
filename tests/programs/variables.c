/* Functions with more variables than one probe reads: of whole numbers, texts and records. */
#include <stdio.h>
#include <string.h>

struct point {
	int x, y;
};

#define EIGHT(make) make(0) make(1) make(2) make(3) make(4) make(5) make(6) make(7)

__attribute__((noinline)) static long many(int n, const char *who)
{
#define NUMBER(k) int small##k = n + k; long large##k = n * (1000003L + k); double real##k = n / (k + 1.0);
#define TEXT(k) char buffer##k[16]; const char *text##k = buffer##k;
#define POINT(k) struct point point##k = { n + k, -n };
	EIGHT(NUMBER)
	EIGHT(TEXT)
	EIGHT(POINT)
	long sum = 0;

#define ADD(k) snprintf(buffer##k, 16, "%s %d", who, n + k); \
	sum += small##k + large##k + (long)real##k + text##k[0] + point##k.x;
	EIGHT(ADD)
	{
		int small3 = n * 7; /* hides the other */

		sum += small3;
	}
	return sum; /* all are set */
}

#define HUNDRED(make, k) make(k##0) make(k##1) make(k##2) make(k##3) make(k##4) \
	make(k##5) make(k##6) make(k##7) make(k##8) make(k##9)

__attribute__((noinline)) static long hundreds(int n)
{
#define ONE(k) int v##k = n + 1##k;
#define TENS(h) HUNDRED(ONE, h##0) HUNDRED(ONE, h##1) HUNDRED(ONE, h##2) HUNDRED(ONE, h##3) \
	HUNDRED(ONE, h##4) HUNDRED(ONE, h##5) HUNDRED(ONE, h##6) HUNDRED(ONE, h##7) \
	HUNDRED(ONE, h##8) HUNDRED(ONE, h##9)
	TENS(1) TENS(2) TENS(3)
	return v100 + v399; /* hundreds are set */
}

int main(void)
{
	const char *volatile who = "who";
	/* Read before it is passed: kernels without sleepable programs cannot load its page. */
	long all = who[0] - 'w';

	for (int n = 0; n < 6; n++) {
		all += many(n, who);
		all += hundreds(n);
	}
	printf("%ld\n", all);
	return 0;
}
