/* What is known of a function while flow.c follows it. */
#ifndef LBT_FLOW_STATE_H
#define LBT_FLOW_STATE_H

#include "array.h"
#include "exits.h"
#include "x86_64_stack.h"

enum { PARTS = 64, LARGEST = 1 << 28 };
enum {
	TAKEN = 1, MOVES = 2, HALTS = 4, INVALID = 8, FOREIGN = 16, LEADS = 32, SEEN = 64,
	LANDED = 128, USED = 256, UNFIT = 512, PUSHES = 1024,
};
enum state { NEXT_WAY, IN_LINE, IN_EFFECTS };

/* What is known of the instruction that begins at a byte. */
struct spot {
	uint64_t before; /* the address of that which continues to it, plus 1; 0: none */
	uint32_t source; /* the number of the last that jumps to it, plus 1 */
	uint32_t depth;  /* the number of the stack there, plus 1 */
	uint16_t marks;
	uint8_t length, flow, seen;
};

struct part {
	const unsigned char *code;
	struct spot *spots;
	size_t size;
	uint64_t address;
};

struct way {
	uint64_t address;
	struct stack stack;
	int64_t source;
};

struct source {
	int64_t from;
	uint32_t next; /* the number of the one before, plus 1 */
};

/* Where a table lies. */
struct table {
	uint64_t start, end;
};

/* A computed jump, and the negative number of where it meets others. */
struct meeting {
	int64_t meeting, from;
};

#define ARRAY(type) struct { type *items; size_t count, capacity; }

struct lbt_flow {
	struct lbt_answers *answers;
	struct part parts[PARTS];
	size_t part_count;
	ARRAY(struct way) ways, uncertain;
	ARRAY(struct source) sources;
	ARRAY(struct meeting) meetings;
	ARRAY(struct way) depths;
	ARRAY(struct lbt_out) outs, joins;
	ARRAY(struct lbt_hiding) hidings;
	ARRAY(struct table) tables;
	ARRAY(struct lbt_exit) exits;
	ARRAY(struct lbt_entry) entries;
	ARRAY(uint64_t) taken;
	ARRAY(int64_t) ahead, reached;
	/* The line that is followed: up to where its effects are known, and where it ends. What
	   follows its last call, and whether that is nops so far. */
	enum state state;
	struct part *part;
	uint64_t start, at, end, called, until;
	struct stack stack;
	int only_nops;
	/* Whether the code at an address is looked for, or has been. */
	uint64_t unknown;
	int answered;
	int loops_to_entry, overlaps, failed;
	/* Some instruction moves the stack pointer by what is known only at run time. */
	int loses_stack;
	/* Instructions that were looked at for whether the function returns. */
	size_t seen;
	/* Exits that were looked at, and conditional entries of epilogues among them. */
	size_t looked_at;
	int conditional;
};

/* True where something was appended. */
#define APPEND(flow, array, ...)                                                                  \
	(lbt_reserve((char **)&(flow)->array.items, &(flow)->array.capacity,                      \
		     (flow)->array.count + 1, sizeof(*(flow)->array.items))                       \
		 ? ((flow)->failed = 1, 0)                                                        \
		 : ((flow)->array.items[(flow)->array.count++] = (__VA_ARGS__), 1))

/* How far the stack pointer and rbp are below the stack pointer at entry, by what is restored. */
struct stack lbt_steps_stack(const struct lbt_steps *steps, int32_t restored);

static inline struct part *part_of(const struct lbt_flow *flow, uint64_t address)
{
	for (size_t each = 0; each < flow->part_count; each++)
		if (address - flow->parts[each].address < flow->parts[each].size)
			return (struct part *)&flow->parts[each];
	return NULL;
}

static inline struct spot *spot_of(const struct lbt_flow *flow, uint64_t address)
{
	struct part *part = part_of(flow, address);

	return part ? &part->spots[address - part->address] : NULL;
}

static inline int is_taken(const struct lbt_flow *flow, uint64_t address)
{
	struct spot *spot = spot_of(flow, address);

	return spot && spot->marks & TAKEN;
}

/* Decodes what begins there; false where a full decoder is needed. */
static inline int decode(struct part *part, uint64_t address, struct instruction *into)
{
	struct spot *spot = &part->spots[address - part->address];

	if (spot->marks & (FOREIGN | INVALID)) {
		*into = (struct instruction){.address = address, .next = address + spot->length,
					     .flow = FLOW_NEXT, .first = NO_REGISTER};
		return 1;
	}
	if (!lbt_read_instruction(part->code, part->size, address - part->address, part->address,
				  into))
		return 0;
	spot->length = (uint8_t)(into->next - address);
	spot->flow = into->flow;
	if (into->flow == FLOW_STACK || into->first == RSP || into->first == RBP)
		spot->marks |= MOVES;
	if (!into->extended && into->opcode == 0xf4 && into->flow == FLOW_NEXT)
		spot->marks |= HALTS;
	return 1;
}

static inline uint64_t target_of(const struct instruction *i)
{
	return i->next + (uint64_t)i->immediate;
}

#endif
