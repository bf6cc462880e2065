/*
 * The instructions of an x86-64 function that control flow reaches. The code is followed along
 * every direct jump; lbtrace/machine/x86_64/computed_jumps.py adds where computed ones lead. What
 * is not reached so is data: a function may hold tables and constants. Nothing is followed after a
 * call that never returns, nor after a call of a place in the same function, which may be there
 * for the address it pushes only.
 */
#ifndef LBT_FLOW_H
#define LBT_FLOW_H

#include <stddef.h>
#include <stdint.h>

#include "answers.h"
#include "x86_64_code.h"

/* What must be known to continue. */
enum lbt_need {
	LBT_FOLLOWED,      /* nothing */
	LBT_NEEDS_END,     /* whether the function at an address never returns */
	LBT_NEEDS_SLOT,    /* whether that does to which a pointer at an address leads */
	LBT_NEEDS_PART,    /* whether there is more code of the function at an address */
	LBT_NEEDS_DECODER, /* what the instruction at an address is */
	LBT_FAILED,        /* too much, or no memory */
};

/* An instruction that is left to a full decoder: one that leads to the next, or none. */
enum lbt_decoded { LBT_PLAIN, LBT_INVALID };

struct lbt_flow;

/* Why an exit may be unknown. */
enum lbt_hidden {
	LBT_HIDDEN_CALL, LBT_HIDDEN_END, LBT_HIDDEN_NO_CODE, LBT_HIDDEN_TRAP, LBT_HIDDEN_PUSHED,
};

/* An instruction by which the function is left; at computed jumps it is not known whether. */
struct lbt_out {
	uint64_t address;
	int32_t pointer, base;
	int32_t kind; /* enum flow */
};

/* Of what an exit may be unknown: about an instruction, of which the key is the end or the address. */
struct lbt_hiding {
	uint64_t key, at;
	int32_t why;
};

/*
 * What was found so far, in the order in which it was; and about which address something must be
 * known.
 */
struct lbt_found {
	const struct lbt_out *outs;
	const struct lbt_hiding *hidings;
	size_t out_count, hiding_count;
	uint64_t about;
	int loops_to_entry;
	int loses_stack; /* it may be anywhere at what was reached on several ways: alloca() */
};

/* A flow reads the parts that are added, which must not overlap, and stay where they are. */
struct lbt_flow *lbt_flow_new(struct lbt_answers *answers);
void lbt_flow_free(struct lbt_flow *flow);
void lbt_flow_reset(struct lbt_flow *flow); /* for another function */
int lbt_flow_add(struct lbt_flow *flow, const unsigned char *code, size_t size, uint64_t address);

/*
 * Adds a place to follow the code from, with the stack there, and what leads there: a jump, or a
 * negative number where computed jumps meet; 0 is none.
 */
int lbt_flow_from(struct lbt_flow *flow, uint64_t address, int32_t pointer, int32_t base,
		  int64_t source);

/* Notes that a computed jump leads to where others do, too. */
int lbt_flow_meet(struct lbt_flow *flow, int64_t meeting, uint64_t from);

/* Follows all, until something must be known. */
int lbt_flow_run(struct lbt_flow *flow, struct lbt_found *found);

/*
 * Takes back that returns lead to what was pushed, where other ways to them say otherwise: what came
 * there first was no way, as its last call does not return. These returns are found again.
 */
void lbt_flow_judge(struct lbt_flow *flow, struct lbt_found *found);

/*
 * Looks at most at so many instructions from the places on, for whether any way ends in a return.
 * May need something to be known, too.
 */
enum lbt_end { LBT_MAY_RETURN = -1, LBT_NEVER_RETURNS = -2 };
int lbt_flow_ends(struct lbt_flow *flow, size_t most, uint64_t *about);

/*
 * Whether some way through a function ends in a return, whatever those do that it calls and that are
 * not known; true also of what is longer than so many instructions. What returns becomes known.
 * Else asked are some that are called of which it would have to be known, up to a 0.
 */
enum { LBT_ASKED = 16 };
int lbt_surely_returns(struct lbt_answers *returning, const unsigned char *code, size_t size,
		       uint64_t address, size_t most, uint64_t *asked);

/* Answers; a part was added before, or there is none. */
int lbt_flow_answer(struct lbt_flow *flow, int need, uint64_t about, int yes);
int lbt_flow_decoded(struct lbt_flow *flow, uint64_t about, int kind, int length);

#endif
