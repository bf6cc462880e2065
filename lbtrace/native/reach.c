/* What code calls: see reach.h. */
#include "reach.h"

#include <stdlib.h>
#include <string.h>

#include "sweep.h"

static void doubt(struct sweep *sweep, int why, const struct instruction *at)
{
	if (sweep->found->doubt)
		return;
	sweep->found->doubt = why;
	sweep->found->doubt_at = at ? at->address : 0;
}

static void note(struct sweep *sweep, uint64_t *into, size_t *count, uint64_t address)
{
	if (*count == LBT_REACHED)
		sweep->too_much = 1;
	else
		into[(*count)++] = address;
}

/* Follows an instruction that changes the stack pointer or rbp. */
static void move(struct sweep *sweep, const struct instruction *i)
{
	struct stack before = sweep->stack;

	sweep->stack = lbt_stack_after(before, i, &sweep->too_much);
	if (is_sum(i) && copies_sum(&sweep->copies, before, i, &sweep->too_much) != LBT_NO_DEPTH)
		sweep->too_much = 1;
	if (i->first == RBP)
		sweep->callers = 0;
	if (sweep->stack.pointer != LBT_NO_DEPTH && sweep->stack.pointer > sweep->deepest)
		sweep->deepest = sweep->stack.pointer;
	sweep->based |= sweep->stack.base != LBT_NO_DEPTH;
	if (is_exchange(i) ||
	    (i->first == RSP && is_load(i) && sweep->stack.pointer == LBT_NO_DEPTH))
		doubt(sweep, LBT_SETS_STACK, i);
	if (i->flow == FLOW_STACK && is_pop(i) && i->opcode != 0x9d && !before.pointer)
		sweep->found->keeps = 1;
}

/* Notes it where the frame pointer is taken as a value, or another stack is. */
static void take(struct sweep *sweep, const struct instruction *i)
{
	int second = second_register(i);

	if (second == RBP)
		sweep->found->walks |= sweep->callers || sweep->stack.base == 8;
	else if (second == RSP && is_exchange(i))
		doubt(sweep, LBT_SETS_STACK, i);
}

/* Notes it where an instruction reads the return address, or follows frame pointers. */
static void look(struct sweep *sweep, const struct instruction *i)
{
	struct lbt_reach *found = sweep->found;
	int64_t offset = i->displacement;

	if (!i->extended && i->opcode == 0x8d && (i->first == RSP || i->first == RBP))
		return;
	if (i->base == RBP && sweep->copies.frame != LBT_NO_DEPTH)
		sweep->too_much |= offset == 8 || offset == sweep->copies.frame;
	if (i->base == RSP && sweep->stack.pointer == LBT_NO_DEPTH) {
		if (sweep->unsure_count == UNSURE)
			sweep->too_much = 1;
		else
			sweep->unsure[sweep->unsure_count++] = offset;
	} else if (i->base == RSP) {
		found->keeps |= offset == sweep->stack.pointer;
	} else if (sweep->stack.base != LBT_NO_DEPTH) {
		found->keeps |= offset == sweep->stack.base;
		found->walks |= !offset && sweep->stack.base == 8;
	} else if (sweep->callers) {
		found->walks |= !offset || offset == 8;
	} else if (sweep->based && same(sweep->stack, NOWHERE)) {
		found->keeps |= offset == 8;
	}
}

/* Whether an indirect jump goes to a sum, as that of a switch: see branches.py. */
static int adds_up(const struct sweep *sweep, const struct instruction *jump)
{
	for (size_t back = 1; jump->first >= 0 && back <= HISTORY && back <= sweep->past; back++) {
		size_t at = (sweep->past - back) % HISTORY;

		if (sweep->firsts[at] == jump->first)
			return sweep->adds[at];
	}
	return 0;
}

/* Notes that code continues at an address outside of it. */
static void leave(struct sweep *sweep, uint64_t target)
{
	struct lbt_reach *found = sweep->found;

	if (found->jump_count < LBT_REACHED) {
		found->depths[found->jump_count] = sweep->stack.pointer;
		found->jump_passed[found->jump_count] = copies_passed(&sweep->copies);
	}
	note(sweep, found->jumps, &found->jump_count, target);
}

/* Notes with which stack control flow leads to an address within the code. */
static void arrive(struct sweep *sweep, uint64_t target)
{
	struct place *place = &sweep->places[target - sweep->start];

	if (place->lost && sweep->stack.pointer != LBT_NO_DEPTH &&
	    sweep->stack.pointer < sweep->least_later)
		sweep->least_later = sweep->stack.pointer;
	if (!place->targeted)
		place->stack = sweep->stack;
	else if (!same(place->stack, sweep->stack))
		place->stack = NOWHERE;
	place->targeted = 1;
}

/* Notes an address that the code takes, where a computed jump may lead. */
static void label(struct sweep *sweep, uint64_t target)
{
	struct lbt_reach *found = sweep->found;

	if (target <= sweep->start || target >= sweep->end) {
		for (size_t each = 0; each < found->label_count; each++)
			if (found->labels[each] == target)
				return;
		if (found->label_count < LBT_LABELLED)
			found->labels[found->label_count++] = target;
		return;
	}
	sweep->places[target - sweep->start].labelled = 1;
	if (sweep->label_count == LABELS)
		sweep->too_much = 1;
	else
		sweep->labels[sweep->label_count++] = target;
}

/* Follows a jump to what is computed: to the addresses that were taken before. */
static void compute(struct sweep *sweep, const struct instruction *i)
{
	int at_entry = !sweep->stack.pointer || sweep->stack.pointer == LBT_NO_DEPTH;
	int sum = adds_up(sweep, i);

	sweep->found->jumps_away |= at_entry && !sum;
	sweep->found->computes = 1;
	sweep->found->computes_at = sweep->stack.pointer;
	for (size_t each = 0; each < sweep->label_count; each++)
		arrive(sweep, sweep->labels[each]);
	if (sum || i->notrack)
		sweep->switched = sweep->stack;
	else
		doubt(sweep, LBT_UNKNOWN_JUMP, i);
}

static void jump(struct sweep *sweep, const struct instruction *i)
{
	uint64_t target = i->next + (uint64_t)i->immediate;
	struct lbt_reach *found = sweep->found;

	if (target <= i->address)
		numbers_none(&sweep->copies.numbers); /* what a loop counted */
	found->restarts |= target == sweep->start;
	if (target < sweep->start || target >= sweep->end) {
		leave(sweep, target);
		found->leads_elsewhere |= i->flow == FLOW_BRANCH || sweep->stack.pointer;
		return;
	}
	arrive(sweep, target);
}

static void call(struct sweep *sweep, const struct instruction *i)
{
	uint64_t target = i->next + (uint64_t)i->immediate;
	struct lbt_reach *found = sweep->found;

	if (found->call_count < LBT_REACHED)
		found->call_passed[found->call_count] = copies_passed(&sweep->copies);
	if (target == i->next && sweep->stack.pointer != LBT_NO_DEPTH)
		sweep->stack.pointer = lbt_less(sweep->stack.pointer, -8, &sweep->too_much);
	else
		note(sweep, found->calls, &found->call_count, target);
	if (target > sweep->start && target < sweep->end && target != i->next)
		doubt(sweep, LBT_CALLS_ITSELF, i);
}

/* Follows what is no plain instruction. */
static void turn(struct sweep *sweep, const struct instruction *i)
{
	uint64_t slot = i->next + (uint64_t)i->displacement;
	struct lbt_reach *found = sweep->found;

	switch (i->flow) {
	case FLOW_CALL:
		return call(sweep, i);
	case FLOW_CALL_THROUGH:
		if (i->relative && found->call_slot_count < LBT_REACHED)
			found->slot_passed[found->call_slot_count] = copies_passed(&sweep->copies);
		if (i->relative)
			return note(sweep, found->call_slots, &found->call_slot_count, slot);
		return doubt(sweep, LBT_UNKNOWN_CALL, i);
	case FLOW_SYSCALL:
		return doubt(sweep, LBT_SYSTEM_CALL, i);
	case FLOW_JUMP_THROUGH:
		if (i->relative && found->jump_slot_count < LBT_REACHED)
			found->jump_slot_passed[found->jump_slot_count] =
				copies_passed(&sweep->copies);
		if (i->relative)
			return note(sweep, found->jump_slots, &found->jump_slot_count, slot);
		found->leads_elsewhere = 1;
		return compute(sweep, i);
	case FLOW_JUMP:
	case FLOW_BRANCH:
		return jump(sweep, i);
	case FLOW_RETURN:
		if (sweep->stack.pointer != LBT_NO_DEPTH && sweep->begun != LBT_NO_DEPTH &&
		    sweep->stack.pointer && sweep->stack.pointer != sweep->begun)
			sweep->too_much = 1; /* returns elsewhere: left to a full decoder */
		return;
	case FLOW_INT3:
		return doubt(sweep, LBT_UNUSUAL, i);
	}
}

/* Whether other code goes on: that of a function that is called, or jumped to. */
static int leaves(const struct sweep *sweep, const struct instruction *i)
{
	uint64_t target = i->next + (uint64_t)i->immediate;

	if (i->flow == FLOW_JUMP || i->flow == FLOW_BRANCH)
		return target < sweep->start || target >= sweep->end;
	return is_call(i->flow) || i->flow == FLOW_JUMP_THROUGH;
}

/* Follows a plain instruction. */
static void pass(struct sweep *sweep, const struct instruction *i)
{
	size_t at = sweep->past++ % HISTORY;

	if (copies_follow(&sweep->copies, sweep->stack, i, sweep->callers, &sweep->too_much))
		sweep->too_much = 1;
	if (i->first == RSP || i->first == RBP || i->flow == FLOW_STACK)
		move(sweep, i);
	else if (sweep->callers || sweep->stack.base == 8 || sweep->exchanges)
		take(sweep, i);
	count_numbers(&sweep->copies.numbers, i);
	sweep->firsts[at] = i->first;
	sweep->adds[at] = (int8_t)is_add(i);
}

/* Reads all of the code; false for what is left to a full decoder. */
static int run(struct sweep *sweep, const unsigned char *code)
{
	int last = FLOW_NEXT;
	size_t at = 0;

	while (at < sweep->size) {
		struct place *place = &sweep->places[at];
		struct instruction i;

		if (!lbt_read_instruction(code, sweep->size, at, sweep->start, &i))
			return 0;
		place->starts = 1;
		at = i.next - sweep->start;
		if (place->targeted) {
			sweep->stack = same(sweep->stack, place->stack)
					       ? sweep->stack : merged(sweep->stack, place->stack);
			sweep->begun = sweep->stack.pointer;
			numbers_none(&sweep->copies.numbers);
		} else if (!is_plain(last) && (i.flow == FLOW_NOP || i.flow == FLOW_INT3)) {
			continue;
		}
		place->lost = sweep->stack.pointer == LBT_NO_DEPTH;
		last = i.flow;
		if ((i.base == RSP || i.base == RBP) && !i.indexed)
			look(sweep, &i);
		if (i.in_memory && copies_reach(&sweep->copies, sweep->stack, &i))
			sweep->too_much = 1;
		if (i.in_memory)
			copies_note(&sweep->copies, sweep->stack, &i, sweep->found);
		if (is_plain(last)) {
			if (!i.extended && i.opcode == 0x8d && i.relative)
				label(sweep, i.next + (uint64_t)i.displacement);
			if (place->lost)
				sweep->strays |= strays(&i);
			sweep->pops += place->lost && i.flow == FLOW_STACK && is_pop(&i);
			if (sweep->pops > sweep->most_pops)
				sweep->most_pops = sweep->pops;
			pass(sweep, &i);
			continue;
		}
		sweep->pops = 0;
		turn(sweep, &i);
		if (leaves(sweep, &i) && is_passed(&sweep->copies))
			sweep->too_much = 1;
		sweep->begun = sweep->stack.pointer;
		if (is_call(last))
			copies_called(&sweep->copies);
		if (!is_end(last))
			continue;
		numbers_none(&sweep->copies.numbers);
		place = at < sweep->size ? &sweep->places[at] : NULL;
		sweep->stack = place && place->targeted ? place->stack : sweep->switched;
	}
	for (at = 0; at < sweep->size; at++)
		if ((sweep->places[at].targeted ||
		     (sweep->places[at].labelled && sweep->found->computes)) &&
		    !sweep->places[at].starts)
			return 0; /* jumps into the midst of an instruction */
	if (!is_end(last) && !is_call(last)) {
		doubt(sweep, LBT_GOES_ON, NULL);
		leave(sweep, sweep->end);
	}
	return 1;
}

int lbt_find_reach(const unsigned char *code, size_t size, uint64_t address, int32_t depth,
		   struct lbt_reach *found)
{
	struct place *places = calloc(size + 1, sizeof(*places));
	int again = 0, keeps = 0, sweeps = 0;

	if (!places || address + size < address)
		goto failed;
	do {
		struct sweep sweep = {.found = found, .places = places, .size = size,
				      .start = address, .end = address + size,
				      .stack = {depth, LBT_NO_DEPTH}, .switched = NOWHERE,
				      .deepest = depth == LBT_NO_DEPTH ? 0 : depth,
				      .begun = depth, .least_later = INT32_MAX,
				      .callers = depth == 0};

		memset((char *)found + offsetof(struct lbt_reach, call_count), 0,
		       sizeof(*found) - offsetof(struct lbt_reach, call_count));
		found->keeps = keeps;
		copies_none(&sweep.copies);
		if (!depth)
			copies_begin(&sweep.copies);
		sweep.exchanges = size && memchr(code, 0x87, size) != NULL;
		if (!run(&sweep, code) || sweep.too_much)
			goto failed;
		for (size_t each = 0; each < sweep.unsure_count; each++)
			found->keeps |= sweep.unsure[each] == sweep.deepest;
		again = ++sweeps < (size <= SMALL ? SWEEPS : 2) &&
			(sweep.least_later < sweep.deepest || sweep.strays) &&
			sweep.least_later != INT32_MAX &&
			(sweep.unsure_count || sweep.strays & STRAYS ||
			 8 * sweep.most_pops > sweep.least_later);
		keeps = found->keeps;
		if (again)
			forget(places, size);
	} while (again);
	free(places);
	return 1;
failed:
	free(places);
	return 0;
}
