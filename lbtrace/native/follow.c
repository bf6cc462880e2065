/* What code may do by way of what it calls: see follow.h. */
#include "follow.h"

#include <stdlib.h>
#include <string.h>

#include "follow_state.h"
#include "shared_frames.h"
#include "sorted.h"
#include "undescribed.h"
#include "x86_64_kinds.h"

static const struct lbt_code_part *part_at(const struct lbt_follow *follow, uint64_t address)
{
	for (size_t each = 0; each < follow->file.part_count; each++) {
		const struct lbt_code_part *part = &follow->file.parts[each];

		if (address >= part->address && address - part->address < part->size)
			return part;
	}
	return NULL;
}

static int ask(struct lbt_follow *follow, int what, uint64_t address)
{
	follow->question->address = address;
	follow->question->number = (uint32_t)follow->next;
	return what;
}

static int extent_of(struct lbt_follow *follow, uint64_t address, struct extent *into)
{
	const struct lbt_followed_file *file = &follow->file;

	*into = (struct extent){.address = address};
	if (file->symbols) {
		for (into->cold = 0; into->cold < 2; into->cold++)
			if (extent_at(file->symbols, into->cold, file->ends, file->end_count, address,
				      &into->start, &into->end) && (!into->cold || address < into->end))
				return LBT_FOLLOW_DONE;
		into->end = into->cold = 0;
		return LBT_FOLLOW_DONE;
	}
	for (size_t each = 0; each < follow->extent_count; each++)
		if (follow->extents[each].address == address) {
			*into = follow->extents[each];
			return LBT_FOLLOW_DONE;
		}
	return ask(follow, LBT_FOLLOW_EXTENT, address);
}

static void set(struct lbt_cause *cause, int kind, uint64_t at)
{
	if (!cause->kind)
		*cause = (struct lbt_cause){kind, at};
}

static struct node *node_of(struct lbt_follow *follow)
{
	return &follow->graph.nodes[follow->next];
}

static int lead(struct lbt_follow *follow, uint64_t address, int32_t depth)
{
	uint32_t to = graph_node(&follow->graph, address, depth);

	return to != NO_NODE && graph_edge(&follow->graph, to) ? LBT_FOLLOW_DONE
								: LBT_FOLLOW_FAILED;
}

/* Follows a call, or with tail a jump in the place of one, of what the name leads to. */
static int by_name(struct lbt_follow *follow, size_t number, int tail)
{
	const struct meaning *meaning = &follow->meanings[number];

	switch (meaning->kind) {
	case LBT_NAME_UNKNOWN:
		follow->question->number = (uint32_t)number;
		return LBT_FOLLOW_NAME;
	case LBT_NAME_LEADS:
		return lead(follow, meaning->address, 0);
	case LBT_NAME_OFFERED:
		if (tail)
			set(&node_of(follow)->keeps, LBT_WHY_ELSEWHERE, number);
		return LBT_FOLLOW_DONE;
	case LBT_NAME_KEEPS:
		if (tail)
			set(&node_of(follow)->keeps, LBT_WHY_NAME, number);
		/* fall through */
	case LBT_NAME_AWAY:
		if (tail)
			set(&node_of(follow)->keeps, LBT_WHY_ELSEWHERE, number);
		/* fall through */
	case LBT_NAME_DOUBT:
		set(&node_of(follow)->doubt, LBT_WHY_NAME, number);
	}
	return LBT_FOLLOW_DONE;
}

static int called(struct lbt_follow *follow, uint64_t target, int tail)
{
	int64_t number = find(follow->file.named, follow->file.named_count, target);

	if (number >= 0)
		return by_name(follow, (size_t)number, tail);
	if (part_at(follow, target))
		return lead(follow, target, 0);
	set(&node_of(follow)->doubt, LBT_WHY_OUTSIDE, target);
	return LBT_FOLLOW_DONE;
}

/* Follows a jump: to another function in the place of this one, or to a part of it. */
static int jumped(struct lbt_follow *follow, uint64_t target, int32_t depth)
{
	const struct lbt_followed_file *file = &follow->file;
	struct extent extent;
	int need = extent_of(follow, target, &extent);

	if (need)
		return need;
	if (extent.cold)
		return lead(follow, extent.start, depth);
	if (target == follow->end && depth && part_at(follow, target) &&
	    (need = lead(follow, target, depth))) /* a symbol there may lie: it just continues */
		return need;
	if (extent.end && extent.start != target && follow->from_function && part_at(follow, target) &&
	    (need = lead(follow, target, depth))) /* what two functions have in common */
		return need;
	if (extent.end && extent.start != target)
		return lead(follow, extent.start, 0); /* back from a part that was split off */
	if (!extent.end && find(file->named, file->named_count, target) < 0 &&
	    part_at(follow, target))
		return lead(follow, target, depth);
	return called(follow, target, !depth || depth == LBT_NO_DEPTH);
}

/* Follows code of no function whose address is taken where a jump is computed, which may lead there. */
static int labelled(struct lbt_follow *follow, uint64_t target, int32_t depth)
{
	const struct lbt_followed_file *file = &follow->file;
	size_t bound = 0;
	struct extent extent;
	int need;

	while (bound < file->end_count && file->ends[bound] <= target)
		bound++;
	if (!(bound & 1) || find(file->named, file->named_count, target) >= 0)
		return LBT_FOLLOW_DONE;
	need = extent_of(follow, target, &extent);
	if (need || !part_at(follow, target) || (extent.end && extent.start == target))
		return need;
	return lead(follow, target, depth);
}

static int through(struct lbt_follow *follow, uint64_t slot, int tail)
{
	int64_t number = find(follow->file.named, follow->file.named_count, slot);

	if (number >= 0)
		return by_name(follow, (size_t)number, tail);
	set(&node_of(follow)->doubt, LBT_WHY_POINTER, slot);
	if (tail)
		set(&node_of(follow)->keeps, LBT_WHY_AWAY, slot);
	return LBT_FOLLOW_DONE;
}

/* Finds what the code of the node does by itself. */
static int read_code(struct lbt_follow *follow, const struct extent *extent)
{
	const struct lbt_code_part *part;
	struct node *node = node_of(follow);
	struct lbt_reach *found = &follow->found;
	uint64_t size = 0, end = extent->end ? extent->end : follow->room_end;
	const unsigned char *code = NULL;

	if (!extent->end && !follow->has_room)
		return ask(follow, LBT_FOLLOW_END, node->address);
	part = part_at(follow, node->address);
	if (part && end > node->address) {
		uint64_t into = node->address - part->address, room = part->size - into;

		code = part->code + into;
		size = end - node->address < room ? end - node->address : room;
		if (!extent->end && follow->alone && follow->file.reads)
			size = undescribed(code, size, node->address, follow->file.largest);
	}
	follow->end = node->address + size;
	if (extent->start != node->address)
		follow->kept = find_within(follow->file.keepers, follow->file.keeper_count,
					   node->address, node->address + size);
	if (size > follow->file.largest) {
		node->doubt = (struct lbt_cause){LBT_WHY_LARGE, node->address};
		follow->reached = (struct reached){.unread = 1};
		return LBT_FOLLOW_DONE;
	}
	if (!follow->file.reads ||
	    !lbt_find_reach(code ? code : (const unsigned char *)"", size, node->address,
			    node->depth, found)) {
		follow->question->end = node->address + size;
		follow->question->depth = node->depth;
		return ask(follow, LBT_FOLLOW_REACH, node->address);
	}
	follow->reached = (struct reached){
		.calls = found->calls, .call_slots = found->call_slots, .jumps = found->jumps,
		.jump_slots = found->jump_slots, .depths = found->depths,
		.call_count = found->call_count, .call_slot_count = found->call_slot_count,
		.jump_count = found->jump_count, .jump_slot_count = found->jump_slot_count,
		.doubt = {found->doubt, found->doubt_at},
		.keeps = found->keeps, .walks = found->walks, .passed = found,
		.jumps_away = found->jumps_away,
		.labels = found->labels, .label_depth = found->computes_at,
		.label_count = found->computes ? found->label_count : 0,
		.accesses = found->accesses, .access_count = found->access_count,
	};
	return LBT_FOLLOW_DONE;
}

/*
 * Notes what is passed to the node that was led to last, if any was since, by way of a target: as
 * native code found it, or the full decoder; shared where the return address is, too.
 */
static int passed(struct lbt_follow *follow, size_t edges, uint64_t target,
		  const struct lbt_passed *what, int shared)
{
	const struct graph *graph = &follow->graph;
	const struct reached *reached = &follow->reached;
	uint32_t to;

	if (graph->edge_count == edges)
		return LBT_FOLLOW_DONE;
	to = graph->edges[graph->edge_count - 1];
	if (reached->passed)
		return passes_add(&follow->passes, to, what, shared) ? LBT_FOLLOW_DONE : LBT_FOLLOW_FAILED;
	for (size_t each = 0; each < reached->handed_count; each++)
		if (reached->handed[each].target == target &&
		    !pass_add(&follow->passes, to, reached->handed[each].parameter,
			      reached->handed[each].value, shared))
			return LBT_FOLLOW_FAILED;
	return LBT_FOLLOW_DONE;
}

/* Follows all that the code of the node leads to. */
static int follow_edges(struct lbt_follow *follow)
{
	const struct reached *reached = &follow->reached;
	const struct lbt_reach *found = &follow->found;
	int need = LBT_FOLLOW_DONE;
	size_t each, edges;

	for (each = 0; each < reached->call_count && !need; each++) {
		edges = follow->graph.edge_count;
		need = called(follow, reached->calls[each], 0);
		need = need ? need : passed(follow, edges, reached->calls[each],
					     &found->call_passed[each], 0);
	}
	for (each = 0; each < reached->call_slot_count && !need; each++) {
		edges = follow->graph.edge_count;
		need = through(follow, reached->call_slots[each], 0);
		need = need ? need : passed(follow, edges, reached->call_slots[each],
					     &found->slot_passed[each], 0);
	}
	node_of(follow)->first_tail = (uint32_t)follow->graph.edge_count;
	for (each = 0; each < reached->jump_count && !need; each++) {
		int32_t depth = reached->depths[each];

		edges = follow->graph.edge_count;
		need = jumped(follow, reached->jumps[each], depth);
		need = need ? need : passed(follow, edges, reached->jumps[each],
					     &found->jump_passed[each],
					     !depth || depth == LBT_NO_DEPTH);
	}
	for (each = 0; each < reached->label_count && !need; each++)
		need = labelled(follow, reached->labels[each], reached->label_depth);
	for (each = 0; each < reached->jump_slot_count && !need; each++) {
		edges = follow->graph.edge_count;
		need = through(follow, reached->jump_slots[each], 1);
		need = need ? need : passed(follow, edges, reached->jump_slots[each],
					     &found->jump_slot_passed[each], 1);
	}
	return need;
}

/* Looks at the next node, from the beginning after each answer. */
static int look(struct lbt_follow *follow)
{
	const struct lbt_followed_file *file = &follow->file;
	struct node *node = node_of(follow);
	struct extent extent;
	int need = extent_of(follow, node->address, &extent);

	if (need)
		return need;
	follow->from_function = extent.end && !extent.cold;
	node->doubt = node->keeps = (struct lbt_cause){0};
	follow->graph.edge_count = node->first_edge;
	follow->passes.pass_count = node->first_pass;
	if (extent.end && !extent.cold && extent.start == node->address &&
	    find(file->keepers, file->keeper_count, node->address) >= 0)
		node->keeps = node->doubt = (struct lbt_cause){LBT_WHY_KEEPER, node->address};
	if (!follow->has_reached && (need = read_code(follow, &extent)))
		return need;
	if (follow->kept >= 0)
		node->keeps = node->doubt = (struct lbt_cause){
			LBT_WHY_KEEPER, follow->file.keepers[follow->kept]};
	if (follow->reached.doubt.kind)
		set(&node->doubt, follow->reached.doubt.kind, follow->reached.doubt.at);
	if (follow->reached.keeps)
		set(&node->keeps, LBT_WHY_READ, node->address);
	if (follow->reached.unread)
		set(&node->keeps, LBT_WHY_UNREAD, node->address);
	if (follow->reached.jumps_away)
		set(&node->keeps, LBT_WHY_AWAY, node->address);
	node->walks = follow->reached.walks && node->keeps.kind != LBT_WHY_KEEPER;
	need = follow_edges(follow);
	if (need)
		return need;
	if (!accesses_add(&follow->passes, follow->reached.accesses, follow->reached.access_count))
		return LBT_FOLLOW_FAILED;
	node_of(follow)->end = (uint32_t)follow->graph.edge_count;
	node_of(follow)->end_passes = (uint32_t)follow->passes.pass_count;
	node_of(follow)->end_accesses = (uint32_t)follow->passes.access_count;
	return LBT_FOLLOW_DONE;
}

static void begin(const struct lbt_follow *follow, struct node *node)
{
	node->first_edge = node->first_tail = node->end = (uint32_t)follow->graph.edge_count;
	node->first_pass = node->end_passes = (uint32_t)follow->passes.pass_count;
	node->first_access = node->end_accesses = (uint32_t)follow->passes.access_count;
}

int lbt_follow(struct lbt_follow *follow, struct lbt_question *question)
{
	struct graph *graph = &follow->graph;

	follow->question = question;
	for (; follow->next < graph->count; follow->next++) {
		struct node *node = node_of(follow);
		int need;

		if (!follow->begun)
			begin(follow, node);
		follow->begun = 1;
		if (follow->next >= follow->roots + follow->file.most_nodes) {
			node->doubt = (struct lbt_cause){LBT_WHY_LIMIT, 0};
		} else {
			need = look(follow);
			if (need)
				return need;
		}
		follow->begun = follow->has_reached = follow->has_room = 0;
		follow->kept = -1;
		follow->extent_count = 0;
	}
	return LBT_FOLLOW_DONE;
}

struct lbt_follow *lbt_follow_new(const struct lbt_followed_file *file, const uint64_t *roots,
				  size_t count)
{
	struct lbt_follow *follow = calloc(1, sizeof(*follow));

	if (!follow)
		return NULL;
	follow->file = *file;
	follow->meanings = calloc(file->named_count + 1, sizeof(*follow->meanings));
	for (size_t each = 0; each < count && follow->meanings; each++)
		if (graph_node(&follow->graph, roots[each], 0) != each)
			break;
	follow->roots = count;
	follow->kept = -1;
	if (follow->meanings && follow->graph.count == count)
		return follow;
	lbt_follow_free(follow);
	return NULL;
}

void lbt_follow_free(struct lbt_follow *follow)
{
	graph_free(&follow->graph);
	passes_free(&follow->passes);
	free(follow->meanings);
	free(follow->extents);
	free(follow);
}

int lbt_judge(struct lbt_follow *follow, struct lbt_verdict *verdicts)
{
	judge_passes(&follow->passes, &follow->graph);
	return graph_judge(&follow->graph, follow->roots, verdicts) &&
	       judge_shared(&follow->passes, &follow->graph, follow->roots, verdicts);
}
