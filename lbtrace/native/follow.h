/*
 * What code may do by way of what it calls, as lbtrace/plan/harmless_functions.py judges it: there
 * it says what is followed, and why.
 */
#ifndef LBT_FOLLOW_H
#define LBT_FOLLOW_H

#include <stddef.h>
#include <stdint.h>

#include "reach.h"

struct lbt_symbols;

/* Why code is in doubt, or keeps its return address; below them are those of reach.h. */
enum lbt_why {
	LBT_WHY_NAME = 32, /* by the name of that number */
	LBT_WHY_OUTSIDE,   /* goes to an address outside of the code */
	LBT_WHY_POINTER,   /* goes through a pointer at an address */
	LBT_WHY_LARGE,     /* the code at an address is large */
	LBT_WHY_LIMIT,     /* calls more than is followed */
	LBT_WHY_KEEPER,    /* by the name of the function at an address */
	LBT_WHY_DECODED,   /* as the full decoder says of the node of that number */
	LBT_WHY_READ,      /* reads its return address */
	LBT_WHY_PASSED,    /* the code at an address reads it, by an address that it gets */
	LBT_WHY_UNREAD,    /* may run what is not known, of the code at an address */
	LBT_WHY_AWAY,      /* jumps through a pointer, as its last act */
	LBT_WHY_ELSEWHERE, /* the same to what the name of that number leads to, in another file */
	LBT_WHY_SHARED,    /* the code at an address jumps to it, and keeps an address of its frame */
};

/* What a name means where it is called. */
enum lbt_meaning {
	LBT_NAME_UNKNOWN, LBT_NAME_HARMLESS, LBT_NAME_LEADS, LBT_NAME_DOUBT, LBT_NAME_KEEPS,
	LBT_NAME_AWAY, LBT_NAME_OFFERED,
};

/* What must be known to continue: see the question. */
enum lbt_followed {
	LBT_FOLLOW_DONE, LBT_FOLLOW_FAILED,
	LBT_FOLLOW_NAME,   /* what the name of this number means */
	LBT_FOLLOW_EXTENT, /* which function holds an address */
	LBT_FOLLOW_END,    /* where the code of no function ends that begins at an address */
	LBT_FOLLOW_REACH,  /* what code does, up to an end */
};

struct lbt_question {
	uint64_t address, end;
	int32_t depth;
	uint32_t number;
};

/* A segment of code, mapped. */
struct lbt_code_part {
	const unsigned char *code;
	uint64_t address, size;
};

/*
 * Symbols of the file, NULL where they are not all; the bounds of sections of code; where code has
 * names, in order; functions that keep their return addresses, in order; the sizes of what is
 * followed. Whether the machine's code is read natively.
 */
struct lbt_followed_file {
	const struct lbt_symbols *symbols;
	const uint64_t *ends, *named, *keepers;
	size_t end_count, named_count, keeper_count;
	const struct lbt_code_part *parts;
	size_t part_count;
	size_t most_nodes, largest;
	int reads;
};

/* A cause: its kind, 0 where there is none, and the address or number that it is about. */
struct lbt_cause {
	int32_t kind;
	uint64_t at;
};

struct lbt_verdict {
	struct lbt_cause doubt, keeps;
	int walks;
};

struct lbt_follow;
struct lbt_follow *lbt_follow_new(const struct lbt_followed_file *file, const uint64_t *roots,
				  size_t count);
void lbt_follow_free(struct lbt_follow *follow);

/* Adds a function to follow, which is no root; 0 without memory. */
int lbt_follow_more(struct lbt_follow *follow, uint64_t address);

/* Continues up to the next question, which is to be answered. */
int lbt_follow(struct lbt_follow *follow, struct lbt_question *question);

void lbt_answer_name(struct lbt_follow *follow, uint32_t number, int meaning, uint64_t address);
int lbt_answer_extent(struct lbt_follow *follow, uint64_t address, uint64_t start, uint64_t end,
		      int cold);
void lbt_answer_end(struct lbt_follow *follow, uint64_t end, int alone);

/* The addresses must live until the next question. */
void lbt_answer_reach(struct lbt_follow *follow, const uint64_t *calls, size_t call_count,
		      const uint64_t *call_slots, size_t call_slot_count, const uint64_t *jumps,
		      const int32_t *depths, size_t jump_count, const uint64_t *jump_slots,
		      size_t jump_slot_count, int doubt, int keeps, int walks, int unread,
		      int jumps_away);

/*
 * More of the same answer: code outside of it whose address it takes, with the depth of the stack where
 * it jumps to what is computed; what parameters hold where it leads to a target; what it accesses.
 */
void lbt_answer_labels(struct lbt_follow *follow, const uint64_t *labels, size_t count,
		       int32_t depth);
void lbt_answer_handed(struct lbt_follow *follow, const struct lbt_handed *handed,
		       size_t handed_count, const struct lbt_access *accesses, size_t access_count);

/* The verdicts on the roots, once all is followed; 0 without memory. */
int lbt_judge(struct lbt_follow *follow, struct lbt_verdict *verdicts);

#endif
