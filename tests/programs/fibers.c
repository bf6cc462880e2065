/* Two fibers on stacks of their own, switched by the program's own assembly.
 *
 *     fibers LOG N
 */
#include "shadow.h"
#include "take_up.h"

#include <stdint.h>

#define STACK (64 << 10)
static volatile long sink;

TRACED long traced_last(long n)
{
	ENTER(n);
	RETURN(n * 2);
}

#include "fibers.h"

static void *left[3];

static void prepare(int fiber)
{
	/* As if it had been left: zeros for the registers, then where to begin. */
	uint64_t *words = (uint64_t *)map_stack(STACK) - SAVED - 1;
	words[ADDRESS] = (uint64_t)run_fiber;
	left[fiber] = words;
}

static void change_stacks(int from, int to)
{
	take_up(&left[from], left[to]);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	shadow_start(argv[1]);
	run_fibers(atol(argv[2]));
	return 0;
}
