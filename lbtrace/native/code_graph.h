/* Which code leads to which: nodes in the order in which they are met, and the edges of each. */
#ifndef LBT_CODE_GRAPH_H
#define LBT_CODE_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "array.h"
#include "follow.h"

/* Code that is called or jumped to at an address, with the stack sunk by depth there. */
struct node {
	uint64_t address;
	int32_t depth;
	int32_t walks;
	struct lbt_cause doubt, keeps;
	uint32_t first_edge, first_tail, end; /* positions among the edges */
	uint32_t first_pass, end_passes, first_access, end_accesses;
};

struct graph {
	struct node *nodes;
	size_t count, capacity;
	uint32_t *edges;
	size_t edge_count, edge_capacity;
	uint32_t *slots; /* nodes by their hashes, each one more than its number */
	size_t slot_count;
};

enum spread { SPREAD_DOUBT, SPREAD_KEEPS, SPREAD_WALKS };

static const uint32_t NO_NODE = UINT32_MAX;

enum { NODE_SLOTS = 1 << 12 };

static inline void graph_free(struct graph *graph)
{
	free(graph->nodes);
	free(graph->edges);
	free(graph->slots);
}

static inline size_t slot_of(const struct graph *graph, uint64_t address, int32_t depth)
{
	uint64_t mixed = (address + (uint64_t)(uint32_t)depth * 31) * 0x9e3779b97f4a7c15u;
	size_t slot = (size_t)(mixed >> 24) & (graph->slot_count - 1);

	for (; graph->slots[slot]; slot = (slot + 1) & (graph->slot_count - 1)) {
		const struct node *node = &graph->nodes[graph->slots[slot] - 1];

		if (node->address == address && node->depth == depth)
			break;
	}
	return slot;
}

/* Keeps at least half of the slots empty. */
static inline int reserve_slots(struct graph *graph)
{
	size_t wanted = graph->slot_count ? graph->slot_count : NODE_SLOTS;
	uint32_t *slots;

	while (wanted < 2 * (graph->count + 1))
		wanted *= 2;
	if (wanted == graph->slot_count)
		return 1;
	slots = calloc(wanted, sizeof(*slots));
	if (!slots)
		return 0;
	free(graph->slots);
	graph->slots = slots;
	graph->slot_count = wanted;
	for (size_t each = 0; each < graph->count; each++) {
		const struct node *node = &graph->nodes[each];

		slots[slot_of(graph, node->address, node->depth)] = (uint32_t)each + 1;
	}
	return 1;
}

/* Returns the number of the node, which is added if it is new; NO_NODE without memory. */
static inline uint32_t graph_node(struct graph *graph, uint64_t address, int32_t depth)
{
	size_t slot;

	if (graph->count >= NO_NODE - 1 || !reserve_slots(graph))
		return NO_NODE;
	slot = slot_of(graph, address, depth);
	if (graph->slots[slot])
		return graph->slots[slot] - 1;
	if (lbt_reserve((char **)&graph->nodes, &graph->capacity, graph->count + 1,
			sizeof(*graph->nodes)))
		return NO_NODE;
	graph->nodes[graph->count++] = (struct node){.address = address, .depth = depth};
	graph->slots[slot] = (uint32_t)graph->count;
	return (uint32_t)graph->count - 1;
}

/* Adds an edge to the node; 0 without memory. */
static inline int graph_edge(struct graph *graph, uint32_t to)
{
	if (graph->edge_count >= NO_NODE ||
	    lbt_reserve((char **)&graph->edges, &graph->edge_capacity, graph->edge_count + 1,
			sizeof(*graph->edges)))
		return 0;
	graph->edges[graph->edge_count++] = to;
	return 1;
}

static inline int has(const struct node *node, enum spread what)
{
	if (what == SPREAD_DOUBT)
		return node->doubt.kind;
	return what == SPREAD_KEEPS ? node->keeps.kind : node->walks;
}

/*
 * Who leads to each node, in the order of the nodes: those of the n-th are in into from firsts[n]
 * to firsts[n + 1].
 */
static inline void turn_round(const struct graph *graph, enum spread what, uint32_t *firsts,
		       uint32_t *into)
{
	for (int fill = 0; fill < 2; fill++) {
		for (size_t from = 0; from < graph->count; from++) {
			const struct node *node = &graph->nodes[from];
			uint32_t at = what == SPREAD_KEEPS ? node->first_tail : node->first_edge;

			for (; at < node->end; at++) {
				if (fill)
					into[firsts[graph->edges[at]]++] = (uint32_t)from;
				else
					firsts[graph->edges[at] + 1]++;
			}
		}
		if (!fill)
			for (size_t each = 0; each < graph->count; each++)
				firsts[each + 1] += firsts[each];
	}
	for (size_t each = graph->count; each; each--)
		firsts[each] = firsts[each - 1];
	firsts[0] = 0;
}

/*
 * Returns, for each node, the first one found with what is spread among those it leads to; that
 * it keeps its return address is spread by tails alone. NULL without memory.
 */
static inline uint32_t *graph_spread(const struct graph *graph, enum spread what)
{
	uint32_t *firsts = calloc(graph->count + 2, sizeof(*firsts));
	uint32_t *before = malloc((graph->edge_count + 1) * sizeof(*before));
	uint32_t *queue = malloc((graph->count + 1) * sizeof(*queue));
	uint32_t *found = malloc((graph->count + 1) * sizeof(*found));
	size_t queued = 0;

	if (firsts && before && queue && found) {
		turn_round(graph, what, firsts, before);
		for (size_t each = 0; each < graph->count; each++) {
			found[each] = has(&graph->nodes[each], what) ? (uint32_t)each : NO_NODE;
			if (found[each] != NO_NODE)
				queue[queued++] = (uint32_t)each;
		}
		for (size_t next = 0; next < queued; next++)
			for (uint32_t at = firsts[queue[next]]; at < firsts[queue[next] + 1]; at++) {
				if (found[before[at]] != NO_NODE)
					continue;
				found[before[at]] = found[queue[next]];
				queue[queued++] = before[at];
			}
	} else {
		free(found);
		found = NULL;
	}
	free(firsts);
	free(before);
	free(queue);
	return found;
}

/* The verdicts on the first nodes. */
static inline int graph_judge(const struct graph *graph, size_t roots, struct lbt_verdict *verdicts)
{
	for (int what = SPREAD_DOUBT; what <= SPREAD_WALKS; what++) {
		uint32_t *found = graph_spread(graph, (enum spread)what);

		if (!found)
			return 0;
		for (size_t each = 0; each < roots; each++) {
			const struct node *cause =
				found[each] == NO_NODE ? NULL : &graph->nodes[found[each]];

			if (what == SPREAD_WALKS)
				verdicts[each].walks = cause != NULL;
			else if (what == SPREAD_KEEPS)
				verdicts[each].keeps = cause ? cause->keeps : (struct lbt_cause){0};
			else
				verdicts[each].doubt = cause ? cause->doubt : (struct lbt_cause){0};
		}
		free(found);
	}
	return 1;
}

#endif
