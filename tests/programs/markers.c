/* Logs each hit of its markers on standard output, and the counters of these on standard error. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <unistd.h>

#define COUNTER(name) unsigned short name##_semaphore __attribute__((section(".probes")))
COUNTER(shop_sale);
COUNTER(shop_done);

static long total = 7;

__attribute__((noinline)) int sale(int n, const char *what, short price, uint8_t code)
{
	volatile long spilled = n * -3L;

	if (*(volatile unsigned short *)&shop_sale_semaphore)
		DTRACE_PROBE6(shop, sale, n, what, price, code, spilled, total);
	printf("sale %d %s %d %d %ld %ld\n", n, what, price, code, spilled, total);
	DTRACE_PROBE2(shop, done, n, -5);
	return n + 1;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 5;
	int pause = argc > 2 ? atoi(argv[2]) : 0;

	for (int n = 0; n < count; n++) {
		total += sale(n, n & 1 ? "apple" : "pear", (short)(n * -100), (uint8_t)(n * 77));
		fprintf(stderr, "%d %d\n", shop_sale_semaphore, shop_done_semaphore);
		if (pause)
			usleep(pause);
	}
	return 0;
}
