/* What was found of the control flow of a function, and what holds it: see flow.h. */
#include "flow_state.h"

struct lbt_flow *lbt_flow_new(struct lbt_answers *answers)
{
	struct lbt_flow *made = calloc(1, sizeof(*made));

	if (made)
		made->answers = answers;
	return made;
}

void lbt_flow_reset(struct lbt_flow *flow)
{
	for (size_t each = 0; each < flow->part_count; each++)
		free(flow->parts[each].spots);
	flow->part_count = 0;
	flow->ways.count = flow->uncertain.count = flow->sources.count = flow->meetings.count = 0;
	flow->depths.count = flow->outs.count = flow->joins.count = flow->hidings.count = 0;
	flow->taken.count = flow->tables.count = flow->exits.count = flow->entries.count = 0;
	flow->looked_at = 0;
	flow->conditional = 0;
	flow->state = NEXT_WAY;
	flow->loops_to_entry = flow->overlaps = flow->failed = flow->answered = 0;
	flow->loses_stack = 0;
	flow->seen = 0;
}

void lbt_flow_free(struct lbt_flow *flow)
{
	lbt_flow_reset(flow);
	free(flow->ways.items);
	free(flow->uncertain.items);
	free(flow->sources.items);
	free(flow->meetings.items);
	free(flow->depths.items);
	free(flow->outs.items);
	free(flow->joins.items);
	free(flow->hidings.items);
	free(flow->tables.items);
	free(flow->exits.items);
	free(flow->entries.items);
	free(flow->taken.items);
	free(flow->ahead.items);
	free(flow->reached.items);
	free(flow);
}

int lbt_flow_add(struct lbt_flow *flow, const unsigned char *code, size_t size, uint64_t address)
{
	struct part *part = &flow->parts[flow->part_count];

	if (flow->part_count == PARTS || size > LARGEST || address + size < address ||
	    (int64_t)(address + size) < 0)
		return 0;
	for (size_t each = 0; each < flow->part_count; each++)
		if (address < flow->parts[each].address + flow->parts[each].size &&
		    flow->parts[each].address < address + size)
			return 0;
	*part = (struct part){code, calloc(size + 1, sizeof(*part->spots)), size, address};
	flow->part_count += part->spots != NULL;
	return part->spots != NULL;
}

size_t lbt_flow_taken(const struct lbt_flow *flow, const uint64_t **addresses)
{
	*addresses = flow->taken.items;
	return flow->taken.count;
}

int lbt_flow_length(const struct lbt_flow *flow, uint64_t address)
{
	return is_taken(flow, address) ? spot_of(flow, address)->length : 0;
}

int lbt_flow_table(struct lbt_flow *flow, uint64_t start, uint64_t end)
{
	return APPEND(flow, tables, (struct table){start, end});
}

/* Whether an instruction that was reached shares no byte with another one. */
static int is_apart(const struct lbt_flow *flow, uint64_t address)
{
	struct part *part = flow->overlaps ? part_of(flow, address) : NULL;
	size_t at = part ? address - part->address : 0;
	size_t end = part ? at + part->spots[at].length : 0;

	for (size_t each = at > 14 ? at - 14 : 0; each < end; each++)
		if (each != at && part->spots[each].marks & TAKEN &&
		    (each > at || each + part->spots[each].length > at))
			return 0;
	return 1;
}

int lbt_flow_is_certain(const struct lbt_flow *flow, uint64_t address)
{
	uint64_t end = address + (uint64_t)lbt_flow_length(flow, address);

	for (size_t each = 0; each < flow->tables.count; each++)
		if (flow->tables.items[each].start < end && address < flow->tables.items[each].end)
			return 0;
	return end > address && is_apart(flow, address);
}

size_t lbt_flow_reached(const struct lbt_flow *flow, int certain, uint64_t *starts, uint64_t *ends)
{
	size_t count = 0;

	for (size_t each = 0; each < flow->taken.count; each++) {
		uint64_t address = flow->taken.items[each];

		if (certain && !lbt_flow_is_certain(flow, address))
			continue;
		starts[count] = address;
		ends[count++] = address + spot_of(flow, address)->length;
	}
	return count;
}

int64_t lbt_flow_before(const struct lbt_flow *flow, uint64_t address)
{
	const struct spot *spot = spot_of(flow, address);

	return spot ? (int64_t)spot->before - 1 : -1;
}

size_t lbt_flow_sources(const struct lbt_flow *flow, uint64_t address, int64_t *into, size_t most)
{
	const struct spot *spot = spot_of(flow, address);
	size_t count = 0;

	for (uint32_t each = spot ? spot->source : 0; each;
	     each = flow->sources.items[each - 1].next)
		if (count++ < most)
			into[count - 1] = flow->sources.items[each - 1].from;
	return count;
}

size_t lbt_flow_straight_line(const struct lbt_flow *flow, uint64_t address, uint64_t *into,
			size_t most)
{
	const struct spot *spot = spot_of(flow, address);
	uint64_t before;
	size_t count = 0;

	while (spot && !spot->source && spot->before) {
		address = spot->before - 1;
		spot = spot_of(flow, address);
	}
	for (;;) {
		if (count++ < most)
			into[count - 1] = address;
		if (!spot || !(spot->marks & TAKEN))
			return count;
		before = address;
		address += spot->length;
		spot = spot_of(flow, address);
		if (!spot || spot->source || spot->before != before + 1)
			return count;
	}
}

/* Whether an instruction may take an address. */
static int is_label(struct part *part, uint64_t address)
{
	struct instruction i;

	if (part->spots[address - part->address].marks & FOREIGN || !decode(part, address, &i))
		return 1;
	return !i.extended && i.opcode == 0x8d && i.relative;
}

size_t lbt_flow_labels(const struct lbt_flow *flow, size_t since, uint64_t *into, size_t most)
{
	size_t count = 0;

	for (; since < flow->taken.count; since++) {
		uint64_t address = flow->taken.items[since];

		if (is_label(part_of(flow, address), address) && count++ < most)
			into[count - 1] = address;
	}
	return count;
}

int lbt_flow_depth(const struct lbt_flow *flow, uint64_t address, int32_t *pointer, int32_t *base)
{
	const struct spot *spot = spot_of(flow, address);

	if (!spot || !spot->depth)
		return 0;
	*pointer = flow->depths.items[spot->depth - 1].stack.pointer;
	*base = flow->depths.items[spot->depth - 1].stack.base;
	return 1;
}

int lbt_flow_meet(struct lbt_flow *flow, int64_t meeting, uint64_t from)
{
	return APPEND(flow, meetings, (struct meeting){meeting, (int64_t)from});
}

/* Notes that an instruction, or meeting, leads to the one in question; true where it is that. */
static int lead(struct lbt_flow *flow, int64_t from, int64_t to)
{
	struct spot *spot = from < 0 ? NULL : spot_of(flow, (uint64_t)from);

	if (from == to)
		return 1;
	if (from < 0)
		for (size_t each = 0; each < flow->reached.count; each++)
			if (flow->reached.items[each] == from)
				return 0;
	if (spot && spot->marks & LEADS)
		return 0;
	if (spot)
		spot->marks |= LEADS;
	APPEND(flow, reached, from);
	APPEND(flow, ahead, from);
	return flow->failed;
}

/* The same of all that leads to one. */
static int lead_all(struct lbt_flow *flow, int64_t at, int64_t to)
{
	const struct spot *spot = at < 0 ? NULL : spot_of(flow, (uint64_t)at);

	if (at < 0)
		for (size_t each = 0; each < flow->meetings.count; each++)
			if (flow->meetings.items[each].meeting == at &&
			    lead(flow, flow->meetings.items[each].from, to))
				return 1;
	for (uint32_t each = spot ? spot->source : 0; each;
	     each = flow->sources.items[each - 1].next)
		if (lead(flow, flow->sources.items[each - 1].from, to))
			return 1;
	return spot && spot->before && lead(flow, (int64_t)spot->before - 1, to);
}

int lbt_flow_in_loop(struct lbt_flow *flow, uint64_t address, size_t most)
{
	int found;

	flow->reached.count = flow->ahead.count = 0;
	found = lead_all(flow, (int64_t)address, (int64_t)address);
	while (!found && flow->ahead.count)
		found = flow->reached.count > most ||
			lead_all(flow, flow->ahead.items[--flow->ahead.count], (int64_t)address);
	for (size_t each = 0; each < flow->reached.count; each++)
		if (flow->reached.items[each] >= 0)
			spot_of(flow, (uint64_t)flow->reached.items[each])->marks &= (uint16_t)~LEADS;
	return found;
}
