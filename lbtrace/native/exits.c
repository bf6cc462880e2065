/* Exits, and entries of epilogues: see exits.h. */
#include "exits.h"
#include "flow_state.h"

#include <string.h>

enum { ENTRIES = 8 };  /* of one epilogue, at most */
enum { CONDITIONAL = 4 };
/* Conditional entries of all epilogues of a function, at most: a call may come by each, and three
   emulated instructions cost about as much as one that is single-stepped. */

/* Whether kernels refuse a probe on a jump or return by its prefixes: uprobe_init_insn(). */
static int is_refused(const unsigned char *raw, int relative)
{
	for (; strchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3", *raw) && *raw; raw++)
		if ((strchr("\x26\x2e\x36\x3e\xf0", *raw)) || (relative && *raw == 0x66))
			return 1;
	return 0;
}

static int condition_of(const struct instruction *i)
{
	if (i->flow != FLOW_BRANCH)
		return LBT_UNCONDITIONAL;
	return (i->opcode & 0xf0) == (i->extended ? 0x80 : 0x70) ? i->opcode & 0xf
								   : LBT_TESTS_REGISTER;
}

static void add_exit(struct lbt_flow *flow, uint64_t address)
{
	struct lbt_exit exit = {.address = address};
	struct part *part = part_of(flow, address);
	struct instruction i;
	int relative;

	if (!part || !decode(part, address, &i)) {
		flow->failed = 1;
		return;
	}
	relative = i.flow == FLOW_JUMP || i.flow == FLOW_BRANCH;
	exit.length = (int32_t)(i.next - address);
	exit.condition = condition_of(&i);
	if (is_refused(&part->code[address - part->address], relative))
		exit.unfit = LBT_REFUSED;
	else if (!lbt_flow_is_certain(flow, address))
		exit.unfit = LBT_NOT_CERTAIN;
	exit.emulated = relative && exit.condition != LBT_TESTS_REGISTER && !exit.unfit;
	if (relative)
		exit.target = target_of(&i);
	else if (i.relative)
		exit.slot = i.next + (uint64_t)i.displacement;
	APPEND(flow, exits, exit);
}

/* How far the stack pointer is below its value at entry on a way; LBT_NO_DEPTH where that is not
   certain. What was found by following the code may agree, or say it. */
static int32_t depth_of(const struct lbt_steps *steps, const struct lbt_way *way)
{
	struct stack after = lbt_steps_stack(steps, way->restored);

	if (after.pointer != LBT_NO_DEPTH)
		return way->has_stack && way->pointer != LBT_NO_DEPTH && way->pointer != after.pointer
			       ? LBT_NO_DEPTH : after.pointer;
	return way->has_stack && way->base == after.base && after.base != LBT_NO_DEPTH
		       ? way->pointer : LBT_NO_DEPTH;
}

/* Makes an entry of a way; false where there can be no probe. */
static int make_entry(struct lbt_flow *flow, const struct lbt_steps *steps,
		      const struct lbt_way *way, struct lbt_entry *into)
{
	struct part *part = part_of(flow, way->address);
	const unsigned char *raw = &part->code[way->address - part->address];
	struct instruction i;
	int jumps;

	if (!decode(part, way->address, &i))
		return 0;
	jumps = !is_plain(i.flow);
	*into = (struct lbt_entry){
		way->address, way->length, condition_of(&i), jumps || (way->length == 1 && *raw == 0x90),
		way->leads, way->restored, -1, depth_of(steps, way),
	};
	return into->sinks != LBT_NO_DEPTH && lbt_flow_is_certain(flow, way->address) &&
	       !(jumps ? is_refused(raw, 1)
		       : part->spots[way->address - part->address].marks & UNFIT);
}

/* Joins a way with the other one by the same conditional jump; false where they differ. */
static int join(const struct lbt_steps *steps, struct lbt_entry *known, const struct lbt_way *way)
{
	if (known->leads == LBT_ALWAYS || known->leads == way->leads ||
	    !same(lbt_steps_stack(steps, known->restored), lbt_steps_stack(steps, way->restored)))
		return 0;
	known->leads = LBT_ALWAYS;
	known->other = way->restored;
	return 1;
}

/* Adds the entries by these ways; how many, 0 where probes there cost as much as one at the end. */
static int add_entries(struct lbt_flow *flow, const struct lbt_steps *steps,
		       const struct lbt_way *ways, int count)
{
	struct lbt_entry entries[LBT_WAYS];
	int found = 0, conditional = 0, emulated = 0;

	for (int each = 0; each < count; each++) {
		int at = 0;

		while (at < found && entries[at].address != ways[each].address)
			at++;
		if (at < found ? !join(steps, &entries[at], &ways[each])
			       : !make_entry(flow, steps, &ways[each], &entries[found++]))
			return 0;
	}
	for (int each = 0; each < found; each++) {
		conditional += entries[each].leads != LBT_ALWAYS;
		emulated |= entries[each].emulated;
	}
	if (found > ENTRIES || !emulated || flow->conditional + conditional > CONDITIONAL)
		return 0;
	flow->conditional += conditional;
	for (int each = 0; each < found; each++) {
		lbt_flow_use(flow, entries[each].address);
		APPEND(flow, entries, entries[each]);
	}
	return found;
}

int lbt_flow_exits(struct lbt_flow *flow, const struct lbt_steps *steps, const uint64_t *outs,
		   size_t count, int known, struct lbt_left *left)
{
	struct lbt_way ways[LBT_WAYS];

	for (; flow->looked_at < count && !flow->failed; flow->looked_at++) {
		struct lbt_exit *exit;

		if (flow->exits.count == flow->looked_at)
			add_exit(flow, outs[flow->looked_at]);
		if (flow->failed)
			break;
		exit = &flow->exits.items[flow->looked_at];
		if (known && !exit->unfit && spot_of(flow, exit->address)->flow == FLOW_RETURN) {
			int found = lbt_flow_ways(flow, steps, exit->address, ways);

			if (found == LBT_UNKNOWN_STEP) {
				left->unknown = ways[0];
				return found;
			}
			exit->entries = add_entries(flow, steps, ways, found);
		}
	}
	*left = (struct lbt_left){.exits = flow->exits.items, .entries = flow->entries.items,
				  .exit_count = flow->exits.count};
	return count && flow->failed ? LBT_NO_STEP : 0;
}
