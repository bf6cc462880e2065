/* Fibers that the program switches by itself, at random; logs which calls happen below calls of
 * outer(), and those: within_fibers SEED
 */
#include "take_up.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIBERS 5
#define STACK (64 << 10)

static void *left[FIBERS];
static int inside[FIBERS], running, depth[FIBERS];
static long next_number, budget = 400;

static int draw(int bound) { return rand() % bound; }

static void note(long number)
{
	if (inside[running])
		printf("%ld\n", number);
}

void one(long number);
void outer(long number);

static void act(void)
{
	for (int n = draw(5); n--;) {
		if (--budget < 0 || depth[running] > 20)
			return;
		switch (draw(5)) {
		case 0:
			outer(++next_number);
			break;
		case 1: {
			int from = running;

			running = draw(FIBERS);
			if (running != from)
				take_up(&left[from], left[running]);
			break;
		}
		default:
			one(++next_number);
		}
	}
}

__attribute__((noinline)) void one(long number)
{
	depth[running]++;
	note(number);
	act();
	depth[running]--;
}

__attribute__((noinline)) void outer(long number)
{
	inside[running]++;
	depth[running]++;
	note(number);
	act();
	depth[running]--;
	inside[running]--;
}

static void run_fiber(void)
{
	for (;;) {
		act();
		if (budget < 0 || !draw(3)) {
			int from = running;

			running = budget < 0 ? 0 : draw(FIBERS);
			if (running != from)
				take_up(&left[from], left[running]);
		}
	}
}

int main(int argc, char **argv)
{
	srand(argc > 1 ? atoi(argv[1]) : 1);
	for (int n = 1; n < FIBERS; n++) {
		uint64_t *words = (uint64_t *)map_stack(STACK) - SAVED - 1;

		words[ADDRESS] = (uint64_t)run_fiber;
		left[n] = words;
	}
	while (budget >= 0)
		act();
	return 0;
}
