/*
 * The ways to a return on which nothing happens but that registers are restored, backward from it:
 * see exits.h.
 */
#ifndef LBT_EPILOGUES_H
#define LBT_EPILOGUES_H

#include "flow_view.h"

/* What instructions do on the way to a return: what is restored has a number, 0 at the return. */
struct lbt_steps;

struct lbt_steps *lbt_steps_new(void);
void lbt_steps_free(struct lbt_steps *steps);
/* Numbers what is restored: rsp and rbp are there so far below the stack pointer at entry. */
int lbt_steps_restored(struct lbt_steps *steps, int32_t pointer, int32_t base);
/* What is restored before an instruction: a number, or LBT_NO_STEP where it does something else;
   unfit are those at which no probe may be. */
enum { LBT_NO_STEP = -1, LBT_UNKNOWN_STEP = -2 };
int lbt_steps_add(struct lbt_steps *steps, int32_t restored, const unsigned char *raw, size_t length,
		  int32_t before, int unfit);

/* A hit of the instruction leads to the return: always, only if it jumps, or only if it does not. */
enum lbt_leads { LBT_STAYS, LBT_JUMPS, LBT_ALWAYS };

struct lbt_way {
	uint64_t address;
	int32_t restored, leads;
	int32_t pointer, base; /* the stack at a branch, where it is known */
	int32_t has_stack, length;
};

/* Notes that no epilogue reaches an instruction, as code continues there after exceptions. */
void lbt_flow_land(struct lbt_flow *flow, uint64_t address);
/* Notes that an instruction is taken for a way: it is none of another return. */
void lbt_flow_use(struct lbt_flow *flow, uint64_t address);

/*
 * Finds the ways to a return; how many, 0 where some has no place for a probe. At an unknown step
 * LBT_UNKNOWN_STEP, and the first way is the instruction, and what is restored after it.
 */
enum { LBT_WAYS = 16 };
int lbt_flow_ways(struct lbt_flow *flow, const struct lbt_steps *steps, uint64_t ret,
		  struct lbt_way *ways);

#endif
