/*
 * What a stretch of x86-64 code calls, and whether it looks at return addresses, as
 * lbtrace/machine/x86_64/reachable_calls.py finds it: there it says what is looked for, and why.
 */
#ifndef LBT_REACH_H
#define LBT_REACH_H

#include <stddef.h>
#include <stdint.h>

#include "x86_64_code.h"

#define LBT_REACHED 4096
#define LBT_LABELLED 64

enum lbt_doubt {
	LBT_CERTAIN,
	LBT_SETS_STACK,    /* sets its stack pointer */
	LBT_GOES_ON,       /* continues beyond its end */
	LBT_UNKNOWN_JUMP,  /* jumps through a pointer */
	LBT_UNKNOWN_CALL,  /* calls through a pointer */
	LBT_SYSTEM_CALL,
	LBT_CALLS_ITSELF,
	LBT_UNUSUAL,
};

/* What a parameter points to counts as from a depth of its own, far from those of the stack. */
enum { LBT_PARAMETERS = 6, PARAMETER = 1 << 26 };

/* Memory that is accessed by what a parameter points to, from 1: so many bytes after that. */
struct lbt_access {
	int64_t offset;
	int16_t size, parameter;
};

/* What parameters hold: see stack_copies.h; LBT_NO_DEPTH where that is no address of the stack. */
struct lbt_passed {
	int32_t values[LBT_PARAMETERS];
};

/* What a parameter, from 1, holds where code leads to a target: as in struct lbt_passed. */
struct lbt_handed {
	uint64_t target;
	int32_t parameter, value;
};

/*
 * The addresses that are called, the slots that are called or jumped through, and where jumps
 * lead to, with the depth of the stack there; addresses outside that are taken; all in the order of the
 * code, with repetitions.
 */
struct lbt_reach {
	uint64_t calls[LBT_REACHED], call_slots[LBT_REACHED], jump_slots[LBT_REACHED];
	uint64_t jumps[LBT_REACHED];
	int32_t depths[LBT_REACHED];
	struct lbt_passed call_passed[LBT_REACHED], slot_passed[LBT_REACHED];
	struct lbt_passed jump_passed[LBT_REACHED], jump_slot_passed[LBT_REACHED];
	struct lbt_access accesses[LBT_REACHED];
	uint64_t labels[LBT_LABELLED];
	size_t call_count, call_slot_count, jump_slot_count, jump_count, access_count, label_count;
	uint64_t doubt_at;
	int doubt, keeps, walks;
	int restarts;        /* a jump leads to the first instruction */
	int computes;        /* where a jump leads is computed */
	int32_t computes_at; /* with the stack at this depth */
	int leads_elsewhere; /* a jump leads to where is unknown */
	int jumps_away;      /* ... with the stack as at entry: a tail call through a pointer */
};

/*
 * Reads all code from its first instruction on, where the stack pointer is so many bytes below its
 * value at entry. False where it holds what is left to a full decoder, or too much.
 */
int lbt_find_reach(const unsigned char *code, size_t size, uint64_t address, int32_t depth,
		   struct lbt_reach *found);

#endif
