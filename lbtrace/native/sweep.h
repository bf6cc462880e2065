/* What is known while x86-64 code is read from its first instruction to its end: see reach.h. */
#ifndef LBT_SWEEP_H
#define LBT_SWEEP_H

#include "stack_copies.h"
#include "x86_64_stack.h"

enum { HISTORY = 8, UNSURE = 2048, LABELS = 16, SWEEPS = 8, SMALL = 2048, MOVES = 1, STRAYS };

/* What is known of an instruction that a jump leads to, or that was read. */
struct place {
	struct stack stack;
	uint8_t targeted, starts, lost; /* lost: read without knowing the stack pointer */
	uint8_t given, labelled; /* given: the stack is known of an earlier time */
};

struct sweep {
	struct lbt_reach *found;
	struct place *places;
	size_t size;
	uint64_t start, end;
	struct stack stack, switched;
	int32_t deepest, begun; /* where a stretch of code without jumps began */
	int32_t least_later;    /* with which jumps lead back to what is lost */
	int64_t unsure[UNSURE]; /* distances from an unknown stack pointer at which it reads */
	size_t unsure_count, past;
	uint64_t labels[LABELS]; /* within the code */
	size_t label_count;
	struct copies copies;
	int based, callers, exchanges, too_much;
	int pops, most_pops; /* one after the other, from there */
	int strays; /* uses a stack pointer of which nothing is known otherwise */
	int8_t firsts[HISTORY], adds[HISTORY];
};

static inline struct stack merged(struct stack one, struct stack other)
{
	if (same(one, NOWHERE))
		return other;
	return (struct stack){one.pointer == other.pointer ? one.pointer : LBT_NO_DEPTH,
			      one.base == other.base ? one.base : LBT_NO_DEPTH};
}

/*
 * Whether an instruction uses the stack pointer otherwise than at a distance from it; or else moves it,
 * which changes distances.
 */
static inline int strays(const struct instruction *i)
{
	if ((i->base == RSP && i->indexed) || second_register(i) == RSP ||
	    (i->flow == FLOW_STACK && i->first == RSP))
		return STRAYS;
	return i->flow == FLOW_STACK || i->first == RSP ? MOVES : 0;
}

/* Keeps with which stacks jumps lead back to what was read without knowing any. */
static inline void forget(struct place *places, size_t size)
{
	for (size_t at = 0; at < size; at++) {
		struct place *place = &places[at];

		if (place->lost && place->targeted && place->stack.pointer != LBT_NO_DEPTH)
			place->given = 1;
		*place = place->given ? (struct place){.stack = place->stack, .targeted = 1, .given = 1}
				      : (struct place){0};
	}
}

#endif
