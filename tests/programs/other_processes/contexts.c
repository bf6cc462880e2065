/* Switches stacks in the middle of calls of a library. */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define LANES 3

static ucontext_t home, lanes[LANES];
static int current, ended;

static int compare(const void *a, const void *b)
{
	swapcontext(&lanes[current], &home);
	return *(const int *)a - *(const int *)b;
}

static void sort(void)
{
	int numbers[] = {5, 4, 3, 2, 1};

	qsort(numbers, 5, sizeof(int), compare);
	printf("sorted %d to %d\n", numbers[0], numbers[4]);
	ended++;
}

int main(void)
{
	int done[LANES] = {};

	for (int i = 0; i < LANES; i++) {
		getcontext(&lanes[i]);
		lanes[i].uc_stack.ss_sp = malloc(1 << 16);
		lanes[i].uc_stack.ss_size = 1 << 16;
		lanes[i].uc_link = &home;
		makecontext(&lanes[i], sort, 0);
	}
	while (ended < LANES)
		for (current = 0; current < LANES; current++) {
			int before = ended;

			if (done[current])
				continue;
			swapcontext(&home, &lanes[current]);
			done[current] = ended > before;
		}
	return 0;
}
