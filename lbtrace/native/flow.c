/* Control flow: see flow.h. */
#include "flow_state.h"

static const uint64_t NO_CALL = ~(uint64_t)0;

/* Whether an address is within the function, and no part begins there. */
static int is_within(const struct lbt_flow *flow, uint64_t address)
{
	for (size_t each = 0; each < flow->part_count; each++)
		if (address == flow->parts[each].address)
			return 0;
	return part_of(flow, address) != NULL;
}

static void hide(struct lbt_flow *flow, uint64_t key, uint64_t at, int why)
{
	APPEND(flow, hidings, (struct lbt_hiding){key, at, why});
}

/* Whether the next instruction follows; LBT_NOT_KNOWN where what is called has to be known. */
static int goes_on(struct lbt_flow *flow, const struct instruction *i, int *need, uint64_t *about)
{
	int ends;

	switch (i->flow) {
	case FLOW_NEXT: case FLOW_NOP: case FLOW_STACK: case FLOW_BRANCH: case FLOW_SYSCALL:
		return 1;
	case FLOW_CALL:
		if (is_within(flow, target_of(i))) {
			hide(flow, i->address, i->address, LBT_HIDDEN_CALL);
			return 0;
		}
		*need = LBT_NEEDS_END;
		*about = target_of(i);
		break;
	case FLOW_CALL_THROUGH:
		if (!i->relative)
			return 1;
		*need = LBT_NEEDS_SLOT;
		*about = i->next + (uint64_t)i->displacement;
		break;
	default:
		return 0;
	}
	if (*about >> 62) {
		flow->failed = 1;
		return 0;
	}
	ends = lbt_answers_find(flow->answers, *about, *need == LBT_NEEDS_SLOT);
	return ends == LBT_NOT_KNOWN ? LBT_NOT_KNOWN : !ends;
}

/* Notes that code after a trap is unknown, at which a debugger may continue. */
static void note_trap(struct lbt_flow *flow, const struct instruction *trap)
{
	size_t into = trap->next - flow->part->address;
	unsigned char rest = into < flow->part->size ? flow->part->code[into] : 0;

	if (rest && rest != 0xcc && rest != 0x90 && rest != 0xf4)
		hide(flow, trap->next, trap->address, LBT_HIDDEN_TRAP);
}

/* Ends the line at what is no code, or at the end of the part; after its last call, which then
   does not return, if there is one. */
static void stop(struct lbt_flow *flow)
{
	uint64_t at = flow->end;
	int ended = at - flow->part->address >= flow->part->size;

	if (at == flow->start)
		return;
	if (flow->until && (!ended || flow->only_nops))
		flow->end = flow->until;
	else
		hide(flow, at, at, ended ? LBT_HIDDEN_END : LBT_HIDDEN_NO_CODE);
}

/* Takes a branch, a call or a trap into the line; false where that ends with it. */
static int extend(struct lbt_flow *flow, const struct instruction *i, int *need, uint64_t *about)
{
	int on = goes_on(flow, i, need, about);

	if (on == LBT_NOT_KNOWN)
		return 0;
	*need = LBT_FOLLOWED;
	if (i->flow == FLOW_INT3 && i->address != flow->called)
		note_trap(flow, i);
	flow->end = i->next;
	flow->only_nops = is_call(i->flow);
	if (is_call(i->flow))
		flow->called = flow->until = i->next;
	return on;
}

/* Finds where the line ends: after what does not continue, or before what is known. */
static int find_line(struct lbt_flow *flow, uint64_t *about)
{
	struct part *part = flow->part;
	int need = LBT_FOLLOWED;

	while (flow->end - part->address < part->size) {
		struct spot *spot = &part->spots[flow->end - part->address];
		struct instruction i;

		if (spot->marks & TAKEN)
			return LBT_FOLLOWED;
		if (spot->marks & INVALID)
			break;
		if (!spot->length || !is_plain(spot->flow)) {
			if (!decode(part, flow->end, &i)) {
				*about = flow->end;
				return LBT_NEEDS_DECODER;
			}
			if (!is_plain(i.flow) && !extend(flow, &i, &need, about))
				return need;
			if (!is_plain(i.flow))
				continue;
		}
		flow->only_nops &= spot->flow == FLOW_NOP;
		flow->end += spot->length;
		if (spot->marks & HALTS)
			return LBT_FOLLOWED;
	}
	stop(flow);
	return LBT_FOLLOWED;
}

static void add_way(struct lbt_flow *flow, uint64_t to, struct stack stack, uint64_t source)
{
	APPEND(flow, ways, (struct way){to, stack, (int64_t)source});
}

/* The stack in code that is called for the address that this pushes. */
static struct stack pushed(struct lbt_flow *flow)
{
	return (struct stack){lbt_less(flow->stack.pointer, -8, &flow->failed),
			      flow->stack.base};
}

/* Follows a direct jump; false where it has to be known whether there is code. */
static int jump(struct lbt_flow *flow, const struct instruction *i)
{
	uint64_t target = target_of(i);
	int inside = part_of(flow, target) != NULL;
	int tail = i->flow == FLOW_JUMP && !flow->stack.pointer;

	flow->loops_to_entry |= target == flow->parts[0].address;
	if (!inside && !tail && flow->part_count < PARTS && !flow->answered) {
		flow->unknown = target;
		return 0;
	}
	flow->answered = 0;
	if (inside)
		add_way(flow, target, flow->stack, i->address);
	else
		APPEND(flow, outs, (struct lbt_out){i->address, flow->stack.pointer,
						    flow->stack.base, i->flow});
	return 1;
}

static void hide_return(struct lbt_flow *flow, struct spot *spot, uint64_t address)
{
	spot->marks |= PUSHES;
	hide(flow, address, address, LBT_HIDDEN_PUSHED);
}

/* Follows what is neither plain nor a call; false as of jumps. */
static int turn(struct lbt_flow *flow, const struct instruction *i)
{
	struct spot *spot = spot_of(flow, i->address);
	struct stack stack = flow->stack;

	if (!spot->depth && APPEND(flow, depths, (struct way){i->address, stack, 0}))
		spot->depth = (uint32_t)flow->depths.count;
	if (i->flow == FLOW_JUMP || i->flow == FLOW_BRANCH)
		return jump(flow, i);
	if (i->flow == FLOW_RETURN && stack.pointer && stack.pointer != LBT_NO_DEPTH)
		hide_return(flow, spot, i->address);
	else if (i->flow == FLOW_RETURN || i->flow == FLOW_JUMP_THROUGH)
		APPEND(flow, outs,
		       (struct lbt_out){i->address, stack.pointer, stack.base, i->flow});
	return 1;
}

/* Notes that the instructions of the line are reached, up to an address. */
static uint64_t take(struct lbt_flow *flow, uint64_t end)
{
	uint64_t at = flow->start, last = 0;

	while (at < end) {
		struct spot *spot = &flow->part->spots[at - flow->part->address];

		spot->marks |= TAKEN;
		if (last)
			spot->before = last;
		for (size_t byte = 0; byte < spot->length; byte++) {
			flow->overlaps |= spot[byte].seen;
			spot[byte].seen = 1;
		}
		APPEND(flow, taken, at);
		last = at + 1;
		at += spot->length;
	}
	return last;
}

static void move_stack(struct lbt_flow *flow, const struct instruction *i)
{
	struct stack after = lbt_stack_after(flow->stack, i, &flow->failed);

	flow->loses_stack |= flow->stack.pointer != LBT_NO_DEPTH && after.pointer == LBT_NO_DEPTH;
	flow->stack = after;
}

/* Follows what the instructions of the line do; not all of them where a nop follows a call. */
static int follow_line(struct lbt_flow *flow)
{
	struct part *part = flow->part;
	uint64_t last, none;
	struct instruction i;
	int need;

	while (flow->at < flow->end) {
		struct spot *spot = &part->spots[flow->at - part->address];

		if (spot->flow == FLOW_NOP && flow->at == flow->called) {
			last = take(flow, flow->at);
			APPEND(flow, uncertain, (struct way){flow->at, flow->stack, 0});
			spot->before = last;
			return LBT_FOLLOWED;
		}
		if ((spot->flow != FLOW_NEXT && spot->flow != FLOW_NOP) || spot->marks & MOVES) {
			if (!decode(part, flow->at, &i))
				return LBT_FAILED;
			if (is_plain(i.flow))
				move_stack(flow, &i);
			else if (!is_call(i.flow) && !turn(flow, &i))
				return LBT_NEEDS_PART;
			if (is_call(i.flow))
				flow->called = i.next;
			if (i.flow == FLOW_CALL && is_within(flow, target_of(&i)))
				add_way(flow, target_of(&i), pushed(flow), i.address);
		}
		flow->at += spot->length;
	}
	last = take(flow, flow->end);
	if (last && is_taken(flow, flow->end) && decode(part, last - 1, &i) &&
	    goes_on(flow, &i, &need, &none) == 1)
		spot_of(flow, flow->end)->before = last;
	return LBT_FOLLOWED;
}

/* Notes what leads to the place. Jumps do so once, meetings perhaps several times. */
static void note_source(struct lbt_flow *flow, const struct way *way)
{
	struct spot *spot = way->source ? spot_of(flow, way->address) : NULL;

	if (!spot)
		return;
	if (way->source < 0)
		for (uint32_t each = spot->source; each; each = flow->sources.items[each - 1].next)
			if (flow->sources.items[each - 1].from == way->source)
				return;
	if (APPEND(flow, sources, (struct source){way->source, spot->source}))
		spot->source = (uint32_t)flow->sources.count;
}

static void begin(struct lbt_flow *flow, const struct way *way)
{
	flow->start = flow->at = flow->end = way->address;
	flow->stack = way->stack;
	flow->called = NO_CALL;
	flow->until = 0;
	flow->only_nops = 1;
	flow->state = IN_LINE;
}

static int run(struct lbt_flow *flow, uint64_t *about)
{
	int need;

	while (!flow->failed) {
		if (flow->state == NEXT_WAY) {
			struct way way;

			if (flow->ways.count)
				way = flow->ways.items[--flow->ways.count];
			else if (flow->uncertain.count)
				way = flow->uncertain.items[--flow->uncertain.count];
			else
				return LBT_FOLLOWED;
			note_source(flow, &way);
			flow->part = part_of(flow, way.address);
			if (!flow->part)
				continue;
			if (is_taken(flow, way.address)) {
				if (way.source)
					APPEND(flow, joins,
					       (struct lbt_out){way.address, way.stack.pointer,
								way.stack.base, FLOW_NEXT});
				continue;
			}
			begin(flow, &way);
		}
		if (flow->state == IN_LINE) {
			need = find_line(flow, about);
			if (need != LBT_FOLLOWED)
				return need;
			flow->called = NO_CALL;
			flow->state = IN_EFFECTS;
		}
		need = follow_line(flow);
		if (need != LBT_FOLLOWED) {
			*about = flow->unknown;
			return need;
		}
		flow->state = NEXT_WAY;
	}
	return LBT_FAILED;
}

static void tell(const struct lbt_flow *flow, uint64_t about, struct lbt_found *found)
{
	*found = (struct lbt_found){flow->outs.items, flow->hidings.items, flow->outs.count,
				    flow->hidings.count, about, flow->loops_to_entry,
				    flow->loses_stack};
}

int lbt_flow_run(struct lbt_flow *flow, struct lbt_found *found)
{
	uint64_t about = 0;
	int need = run(flow, &about);

	tell(flow, about, found);
	return need;
}

/* Follows a straight line to the return at its end, with the stack where another way joins it. */
static void judge(struct lbt_flow *flow, uint64_t at, struct stack stack)
{
	struct spot *spot;
	struct instruction i;
	int too_much = 0;

	while (is_taken(flow, at) && decode(part_of(flow, at), at, &i)) {
		spot = spot_of(flow, at);
		if (i.flow == FLOW_RETURN && spot->marks & PUSHES &&
		    (!stack.pointer || stack.pointer == LBT_NO_DEPTH)) {
			spot->marks &= (uint16_t)~PUSHES;
			APPEND(flow, outs, (struct lbt_out){at, stack.pointer, stack.base, i.flow});
		}
		if (is_plain(i.flow))
			stack = lbt_stack_after(stack, &i, &too_much);
		else if (!is_call(i.flow))
			return;
		at = i.next;
	}
}

void lbt_flow_judge(struct lbt_flow *flow, struct lbt_found *found)
{
	for (size_t each = 0; each < flow->joins.count; each++) {
		const struct lbt_out *join = &flow->joins.items[each];

		judge(flow, join->address, (struct stack){join->pointer, join->base});
	}
	tell(flow, 0, found);
}

int lbt_flow_from(struct lbt_flow *flow, uint64_t address, int32_t pointer, int32_t base,
		  int64_t source)
{
	return APPEND(flow, ways, (struct way){address, {pointer, base}, source});
}

int lbt_flow_answer(struct lbt_flow *flow, int need, uint64_t about, int yes)
{
	flow->answered = need == LBT_NEEDS_PART;
	if (flow->answered)
		return 1;
	return lbt_answers_add(flow->answers, about, need == LBT_NEEDS_SLOT, yes);
}

int lbt_flow_decoded(struct lbt_flow *flow, uint64_t about, int kind, int length)
{
	struct part *part = part_of(flow, about);
	struct spot *spot = spot_of(flow, about);

	if (!part || length < (kind == LBT_PLAIN) || (uint64_t)length > part->size - (about - part->address))
		return 0;
	spot->marks |= kind == LBT_INVALID ? INVALID : FOREIGN;
	spot->flow = FLOW_NEXT;
	spot->length = kind == LBT_INVALID ? 0 : (uint8_t)length;
	return 1;
}

