/*
 * Which functions must keep their return addresses because what jumps to them, as a tail call, left
 * an address of its frame with them or elsewhere: both return by the same word of the stack.
 */
#ifndef LBT_SHARED_FRAMES_H
#define LBT_SHARED_FRAMES_H

#include "passed.h"

struct shared {
	const struct passes *passes;
	const struct graph *graph;
	uint32_t *by; /* of each node: which shares its return address with it, or NO_NODE */
};

/*
 * Marks a node that gets an address by a jump from another, and those that it jumps to and hands it on
 * to, where the return address, so far behind what the parameter points to, is accessed.
 */
static inline void share(const struct shared *shared, uint32_t from, uint32_t number,
			 int parameter, int64_t distance, int left)
{
	const struct node *node = &shared->graph->nodes[number];

	if (!reaches(shared->passes, shared->graph, number, parameter, distance, left))
		return;
	if (shared->by[number] == NO_NODE)
		shared->by[number] = from;
	for (uint32_t each = node->first_pass; left && each < node->end_passes; each++) {
		const struct pass *pass = &shared->passes->passes[each];

		if (pass->shared && parameter_of(pass->value) == parameter)
			share(shared, from, pass->to, pass->parameter,
			      distance - (parameter * PARAMETER - (int64_t)pass->value), left - 1);
	}
}

/* The same of code that takes its frame pointer as a value: all that it jumps to may know that. */
static inline int share_frames(const struct shared *shared)
{
	const struct graph *graph = shared->graph;
	uint32_t *queue = malloc((2 * graph->count + 1) * sizeof(*queue));
	size_t queued = 0;

	if (!queue)
		return 0;
	for (size_t each = 0; each < graph->count; each++)
		if (graph->nodes[each].walks)
			queue[queued++] = (uint32_t)each;
	for (size_t next = 0; next < queued; next++) {
		const struct node *node = &graph->nodes[queue[next]];

		for (uint32_t at = node->first_tail; at < node->end; at++) {
			uint32_t to = graph->edges[at];

			if (shared->by[to] != NO_NODE || graph->nodes[to].walks)
				continue;
			shared->by[to] = queue[next];
			queue[queued++] = to;
		}
	}
	free(queue);
	return 1;
}

/* Adds to the verdicts on the first nodes; 0 without memory. */
static inline int judge_shared(const struct passes *passes, const struct graph *graph, size_t roots,
			       struct lbt_verdict *verdicts)
{
	struct shared shared = {passes, graph, malloc((graph->count + 1) * sizeof(uint32_t))};
	int done;

	if (!shared.by)
		return 0;
	for (size_t each = 0; each < graph->count; each++)
		shared.by[each] = NO_NODE;
	done = share_frames(&shared);
	for (size_t number = 0; number < graph->count; number++) {
		const struct node *node = &graph->nodes[number];

		for (uint32_t each = node->first_pass; each < node->end_passes; each++) {
			const struct pass *pass = &passes->passes[each];

			if (pass->shared && !parameter_of(pass->value))
				share(&shared, (uint32_t)number, pass->to, pass->parameter,
				      pass->value, PASSED_ON);
		}
	}
	for (size_t each = 0; each < roots && done; each++)
		if (!verdicts[each].keeps.kind && shared.by[each] != NO_NODE)
			verdicts[each].keeps = (struct lbt_cause){
				LBT_WHY_SHARED, graph->nodes[shared.by[each]].address};
	free(shared.by);
	return done;
}

#endif
