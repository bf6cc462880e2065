/* Leaves its starter at once, and works every 100 ms, as often as asked. */
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n) { __asm__ volatile(""); return n + 1; }
int main(int argc, char **argv)
{
	if (daemon(1, 1))
		return 1;
	for (int i = 0; i < atoi(argv[1]); i++) {
		usleep(100000);
		work(i);
	}
}
