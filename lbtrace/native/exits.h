/*
 * The exits of an x86-64 function that was followed: what a probe on each of them has to know, and
 * the entries of the epilogues of its returns, which are probed instead, as kernels single-step
 * `ret`. See lbtrace/machine/x86_64/exits.py.
 */
#ifndef LBT_EXITS_H
#define LBT_EXITS_H

#include "epilogues.h"

/* The number of a conditional jump's condition (Intel SDM volume 2, appendix B), or these. */
enum lbt_condition { LBT_UNCONDITIONAL = -1, LBT_TESTS_REGISTER = -2 };

enum lbt_unfit { LBT_FIT, LBT_REFUSED, LBT_NOT_CERTAIN };

/* A jump leads to its target, or through its slot; 0 is none. Of a return so many entries follow
   those of the ones before. */
struct lbt_exit {
	uint64_t address, target, slot;
	int32_t length, condition, emulated, unfit, entries;
};

/* From an entry on is restored what has one number, or another, as the jump there is taken or not;
   -1 is none. The stack pointer is so far below its value at entry. */
struct lbt_entry {
	uint64_t address;
	int32_t length, condition, emulated, leads, restored, other, sinks;
};

struct lbt_left {
	const struct lbt_exit *exits;
	const struct lbt_entry *entries;
	size_t exit_count;
	struct lbt_way unknown; /* a step, as in lbt_flow_ways() */
};

/*
 * Looks at instructions that leave the function; for entries only if all of its exits are known.
 * At an unknown step LBT_UNKNOWN_STEP: called again, it continues there.
 */
int lbt_flow_exits(struct lbt_flow *flow, const struct lbt_steps *steps, const uint64_t *outs,
		   size_t count, int known, struct lbt_left *left);

#endif
