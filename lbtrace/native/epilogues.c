/* Where the epilogue of a return is entered: see epilogues.h. */
#include "epilogues.h"
#include "flow_state.h"

#include <string.h>

enum { LENGTH = 48, LOOKED_AT = 2000, HEADS = 4096, LONGEST = 15 };
/* Instructions of an epilogue; those that are examined before a jump counts as part of a loop. */

struct known {
	unsigned char raw[LONGEST], length;
	unsigned char unfit;
	int32_t restored, before;
	uint32_t next; /* the number of another with the same hash, plus 1 */
};

struct lbt_steps {
	struct known *items;
	size_t count, capacity;
	struct stack *stacks;
	size_t stack_count, stack_capacity;
	uint32_t heads[HEADS];
};

struct lbt_steps *lbt_steps_new(void)
{
	return calloc(1, sizeof(struct lbt_steps));
}

void lbt_steps_free(struct lbt_steps *steps)
{
	free(steps->items);
	free(steps->stacks);
	free(steps);
}

static size_t head_of(int32_t restored, const unsigned char *raw, size_t length)
{
	uint64_t hash = (uint64_t)restored + 1;

	for (size_t each = 0; each < length; each++)
		hash = (hash ^ raw[each]) * 0x9e3779b97f4a7c15;
	return hash >> 52;
}

static const struct known *find_step(const struct lbt_steps *steps, int32_t restored,
				     const unsigned char *raw, size_t length)
{
	uint32_t each = steps->heads[head_of(restored, raw, length)];

	for (; each; each = steps->items[each - 1].next) {
		const struct known *found = &steps->items[each - 1];

		if (found->restored == restored && found->length == length &&
		    !memcmp(found->raw, raw, length))
			return found;
	}
	return NULL;
}

int lbt_steps_add(struct lbt_steps *steps, int32_t restored, const unsigned char *raw, size_t length,
		  int32_t before, int unfit)
{
	uint32_t *head = &steps->heads[head_of(restored, raw, length)];
	struct known *added;

	if (length > LONGEST || lbt_reserve((char **)&steps->items, &steps->capacity,
					    steps->count + 1, sizeof(*steps->items)))
		return 0;
	added = &steps->items[steps->count++];
	*added = (struct known){{0}, (unsigned char)length, unfit != 0, restored, before, *head};
	memcpy(added->raw, raw, length);
	*head = (uint32_t)steps->count;
	return 1;
}

int lbt_steps_restored(struct lbt_steps *steps, int32_t pointer, int32_t base)
{
	if (lbt_reserve((char **)&steps->stacks, &steps->stack_capacity, steps->stack_count + 1,
			sizeof(*steps->stacks)))
		return 0;
	steps->stacks[steps->stack_count++] = (struct stack){pointer, base};
	return 1;
}

struct stack lbt_steps_stack(const struct lbt_steps *steps, int32_t restored)
{
	return steps->stacks[restored];
}

static void mark(struct lbt_flow *flow, uint64_t address, int marks)
{
	struct spot *spot = spot_of(flow, address);

	if (spot)
		spot->marks |= (uint16_t)marks;
}

void lbt_flow_land(struct lbt_flow *flow, uint64_t address)
{
	mark(flow, address, LANDED);
}

void lbt_flow_use(struct lbt_flow *flow, uint64_t address)
{
	mark(flow, address, USED);
}

/* The ways that were found, and where the epilogue has come to. */
struct search {
	struct lbt_flow *flow;
	const struct lbt_steps *steps;
	struct lbt_way *ways;
	int count;
	uint64_t at;
	int32_t restored;
	int length;
};

static int is_far(const struct search *search)
{
	return search->at == search->flow->parts[0].address || search->length > LENGTH ||
	       spot_of(search->flow, search->at)->marks & LANDED;
}

/* Adds a way; those that are too many are counted. */
static int add_way(struct search *search, uint64_t address, int leads)
{
	struct lbt_way way = {address, search->restored, leads, 0, 0, 0,
			      spot_of(search->flow, address)->length};

	way.has_stack = lbt_flow_depth(search->flow, address, &way.pointer, &way.base);
	if (search->count < LBT_WAYS)
		search->ways[search->count] = way;
	return ++search->count;
}

static int is_conditional(const struct instruction *i)
{
	return i->flow == FLOW_BRANCH && (i->opcode & 0xf0) == (i->extended ? 0x80 : 0x70);
}

/* Adds the way by a jump, which is taken or not, or by a nop; false if no probe there is hit just
   once on this way. */
static int come_by(struct search *search, int64_t source, int jumps)
{
	struct part *part = source < 0 ? NULL : part_of(search->flow, (uint64_t)source);
	struct instruction i;

	if (!part || part->spots[(uint64_t)source - part->address].marks & (LANDED | USED) ||
	    !decode(part, (uint64_t)source, &i))
		return 0;
	if (i.flow == FLOW_JUMP || is_plain(i.flow))
		return add_way(search, (uint64_t)source, LBT_ALWAYS);
	return is_conditional(&i) && !lbt_flow_in_loop(search->flow, (uint64_t)source, LOOKED_AT) &&
	       add_way(search, (uint64_t)source, jumps);
}

/* Adds the ways by all jumps to where the epilogue has come to. */
static int come_by_jumps(struct search *search)
{
	struct lbt_flow *flow = search->flow;
	int first = search->count, last;

	for (uint32_t each = spot_of(flow, search->at)->source; each;
	     each = flow->sources.items[each - 1].next)
		if (!come_by(search, flow->sources.items[each - 1].from, LBT_JUMPS))
			return 0;
	last = search->count > LBT_WAYS ? first : search->count - 1;
	for (; first < last; first++, last--) { /* the first one first */
		struct lbt_way way = search->ways[first];

		search->ways[first] = search->ways[last];
		search->ways[last] = way;
	}
	return 1;
}

enum step { BEGINS, STOPS, ENDS, ASKS };

/* Goes back to the beginning of the straight line; ends with a way, or stops before what does
   something else. */
static enum step go_back(struct search *search, uint64_t *entered)
{
	struct lbt_flow *flow = search->flow;
	struct spot *spot = spot_of(flow, search->at);

	while (spot->before) {
		uint64_t last = spot->before - 1;
		struct part *part = part_of(flow, last);
		const unsigned char *raw = &part->code[last - part->address];
		struct instruction i;
		const struct known *step;

		spot = spot_of(flow, last);
		if (*entered && is_far(search))
			return STOPS;
		if (!decode(part, last, &i))
			return STOPS;
		if ((spot->length == 1 && *raw == 0x90) || !is_plain(i.flow))
			return come_by(search, (int64_t)last, LBT_STAYS) ? ENDS : STOPS;
		step = find_step(search->steps, search->restored, raw, spot->length);
		if (!step) {
			search->at = last;
			return ASKS;
		}
		if (step->before == LBT_NO_STEP)
			return STOPS;
		if (step->unfit)
			spot->marks |= UNFIT;
		search->restored = step->before;
		search->at = *entered = last;
		search->length++;
		if (spot->source)
			break;
	}
	return BEGINS;
}

/* Finds all ways; where one line has none, what follows it begins the epilogue. */
static enum step find_ways(struct search *search)
{
	uint64_t entered = 0;

	for (;;) {
		uint64_t outer = entered;
		int32_t restored = search->restored;
		int count = search->count;
		enum step step = STOPS;

		entered = 0;
		if (!is_far(search) && come_by_jumps(search)) {
			if (!spot_of(search->flow, search->at)->before)
				return ENDS;
			step = go_back(search, &entered);
		}
		if (step == ENDS || step == ASKS)
			return step;
		if (step == BEGINS)
			continue;
		if (!entered) {
			search->count = count;
			search->restored = restored;
			entered = outer;
		}
		return entered && add_way(search, entered, LBT_ALWAYS) ? ENDS : STOPS;
	}
}

int lbt_flow_ways(struct lbt_flow *flow, const struct lbt_steps *steps, uint64_t ret,
		  struct lbt_way *ways)
{
	struct search search = {flow, steps, ways, 0, ret, 0, 0};
	enum step step = find_ways(&search);

	if (step == ASKS) {
		search.count = 0;
		add_way(&search, search.at, LBT_ALWAYS);
		return LBT_UNKNOWN_STEP;
	}
	return step == ENDS && search.count <= LBT_WAYS ? search.count : 0;
}
