/* Whether a function returns: see flow.h. */
#include "flow_state.h"

enum { GOES_ON, WAY_ENDS, RETURNS };

/* What a call or what else is not plain does; what must be known is in need. */
static int follow(struct lbt_flow *flow, const struct instruction *i, size_t most, int *need,
		  uint64_t *about)
{
	int through = i->flow == FLOW_CALL_THROUGH, ends;

	switch (i->flow) {
	case FLOW_JUMP: case FLOW_BRANCH:
		lbt_flow_from(flow, target_of(i), 0, 0, 0);
		return i->flow == FLOW_JUMP ? WAY_ENDS : GOES_ON;
	case FLOW_TRAP: case FLOW_INT3:
		return WAY_ENDS;
	case FLOW_RETURN: case FLOW_JUMP_THROUGH:
		return RETURNS;
	}
	if (i->flow != FLOW_CALL && !(through && i->relative))
		return flow->seen >= most ? RETURNS : GOES_ON;
	*about = through ? i->next + (uint64_t)i->displacement : target_of(i);
	if (*about >> 62) {
		flow->failed = 1;
		return RETURNS;
	}
	ends = lbt_answers_find(flow->answers, *about, through);
	if (ends == LBT_NOT_KNOWN)
		*need = through ? LBT_NEEDS_SLOT : LBT_NEEDS_END;
	return ends ? WAY_ENDS : GOES_ON;
}

/* Looks at the instruction where the flow is, and moves on. */
static int step(struct lbt_flow *flow, size_t most, int *need, uint64_t *about)
{
	struct spot *spot = &flow->part->spots[flow->at - flow->part->address];
	struct instruction i;
	int found = GOES_ON;

	if (spot->marks & SEEN)
		return WAY_ENDS;
	if (!(spot->marks & INVALID)) {
		if (!decode(flow->part, flow->at, &i)) {
			*need = LBT_NEEDS_DECODER;
			*about = flow->at;
			return GOES_ON;
		}
		if (!is_plain(i.flow))
			found = follow(flow, &i, most, need, about);
		else if (!(spot->marks & HALTS) && flow->seen >= most)
			found = RETURNS;
		if (*need)
			return GOES_ON;
		flow->called = is_call(i.flow) ? i.next : 0;
	}
	spot->marks |= SEEN;
	flow->seen++;
	flow->at += spot->length;
	return spot->marks & (INVALID | HALTS) ? WAY_ENDS : found;
}

int lbt_flow_ends(struct lbt_flow *flow, size_t most, uint64_t *about)
{
	while (!flow->failed) {
		int need = LBT_FOLLOWED, found;

		if (flow->state == NEXT_WAY) {
			if (!flow->ways.count)
				return LBT_NEVER_RETURNS;
			flow->at = flow->ways.items[--flow->ways.count].address;
			flow->part = part_of(flow, flow->at);
			flow->called = 0;
			flow->state = IN_LINE;
		}
		if (!flow->part)
			return LBT_MAY_RETURN;
		if (flow->at - flow->part->address < flow->part->size) {
			found = step(flow, most, &need, about);
			if (need)
				return need;
			if (flow->failed)
				break;
			if (found == RETURNS)
				return LBT_MAY_RETURN;
			if (found == GOES_ON)
				continue;
		} else if (!flow->called) {
			return LBT_MAY_RETURN;
		}
		flow->state = NEXT_WAY;
	}
	return LBT_FAILED;
}

enum { WAYS = 64 };

/* Places in a function that are still to be looked at, and those that were. */
struct places {
	size_t items[WAYS], count, asking;
	unsigned char *seen;
	uint64_t *asked;
};

/* Whether a function that is called is known to return. */
static int is_returning(const struct lbt_answers *returning, uint64_t address, struct places *places)
{
	if (address >> 62)
		return 0;
	if (lbt_answers_find(returning, address, 0) != LBT_NOT_KNOWN)
		return 1;
	if (places->asking + 1 < LBT_ASKED)
		places->asked[places->asking++] = address;
	return 0;
}

/* Looks at the straight line from a place on; true where it ends in a return. */
static int returns_from(const struct lbt_answers *returning, const unsigned char *code, size_t size,
			uint64_t address, size_t at, size_t *left, struct places *places)
{
	struct instruction i;

	for (; at < size && !places->seen[at]; at = i.next - address) {
		places->seen[at] = 1;
		if (!lbt_read_instruction(code, size, at, address, &i))
			return 0;
		if (i.flow == FLOW_RETURN || i.flow == FLOW_JUMP_THROUGH)
			return 1;
		if (i.flow == FLOW_JUMP || i.flow == FLOW_BRANCH)
			if (target_of(&i) - address < size && places->count < WAYS)
				places->items[places->count++] = target_of(&i) - address;
		if (i.flow == FLOW_JUMP || i.flow == FLOW_TRAP || i.flow == FLOW_INT3 ||
		    (i.flow == FLOW_CALL_THROUGH && i.relative) ||
		    (i.flow == FLOW_NEXT && !i.extended && i.opcode == 0xf4))
			return 0;
		if (i.flow == FLOW_CALL && !is_returning(returning, target_of(&i), places))
			return 0;
		if (is_plain(i.flow) && !(*left)--)
			return 1;
	}
	return 0;
}

int lbt_surely_returns(struct lbt_answers *returning, const unsigned char *code, size_t size,
		       uint64_t address, size_t most, uint64_t *asked)
{
	struct places places = {.count = 1, .asked = asked,
				.seen = size < LARGEST ? calloc(size + 1, 1) : NULL};
	int found = 0;

	while (places.seen && places.count && !found)
		found = returns_from(returning, code, size, address,
				     places.items[--places.count], &most, &places);
	free(places.seen);
	asked[places.asking] = 0;
	if (found && !(address >> 62))
		lbt_answers_add(returning, address, 0, 0);
	return found;
}
