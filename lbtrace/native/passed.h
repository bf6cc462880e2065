/*
 * Whether code passes an address on its stack to other code that accesses its return address by that:
 * at a distance that the code of both shows, and that parameters are passed on with.
 */
#ifndef LBT_PASSED_H
#define LBT_PASSED_H

#include "code_graph.h"
#include "reach.h"
#include "stack_copies.h"

enum { PASSED_ON = 4 };

struct pass {
	uint32_t to;
	int32_t value; /* as in struct copies */
	int16_t parameter, shared; /* shared: by a jump, so that both have the same return address */
};

struct passes {
	struct pass *passes;
	size_t pass_count, pass_capacity;
	struct lbt_access *accesses;
	size_t access_count, access_capacity;
};

static inline void passes_free(struct passes *passes)
{
	free(passes->passes);
	free(passes->accesses);
}

/* Keeps what a parameter holds that is passed to a node; 0 without memory. */
static inline int pass_add(struct passes *passes, uint32_t to, int32_t parameter, int32_t value,
			   int shared)
{
	if (value == LBT_NO_DEPTH || value == CALLERS_FRAME)
		return 1;
	if (lbt_reserve((char **)&passes->passes, &passes->pass_capacity, passes->pass_count + 1,
			sizeof(*passes->passes)))
		return 0;
	passes->passes[passes->pass_count++] = (struct pass){
		to, value, (int16_t)parameter, (int16_t)shared};
	return 1;
}

static inline int passes_add(struct passes *passes, uint32_t to, const struct lbt_passed *passed,
			     int shared)
{
	for (int each = 0; each < LBT_PARAMETERS; each++)
		if (!pass_add(passes, to, each + 1, passed->values[each], shared))
			return 0;
	return 1;
}

static inline int accesses_add(struct passes *passes, const struct lbt_access *accesses, size_t count)
{
	if (lbt_reserve((char **)&passes->accesses, &passes->access_capacity,
			passes->access_count + count, sizeof(*passes->accesses)))
		return 0;
	for (size_t each = 0; each < count; each++)
		passes->accesses[passes->access_count++] = accesses[each];
	return 1;
}

/*
 * Whether a node accesses the 8 bytes that lie so far behind what its parameter points to, or may run
 * code that is not known.
 */
static inline int reaches(const struct passes *passes, const struct graph *graph, uint32_t number,
			  int parameter, int64_t distance, int left)
{
	const struct node *node = &graph->nodes[number];

	if (node->keeps.kind == LBT_WHY_UNREAD && node->doubt.kind != LBT_WHY_LARGE)
		return 1;
	for (uint32_t each = node->first_access; each < node->end_accesses; each++) {
		const struct lbt_access *access = &passes->accesses[each];

		if (access->parameter == parameter && access->offset < distance + ADDRESS_SIZE &&
		    access->offset + access->size > distance)
			return 1;
	}
	for (uint32_t each = node->first_pass; left && each < node->end_passes; each++) {
		const struct pass *pass = &passes->passes[each];

		if (parameter_of(pass->value) == parameter &&
		    reaches(passes, graph, pass->to, pass->parameter,
			    distance - (parameter * PARAMETER - (int64_t)pass->value), left - 1))
			return 1;
	}
	return 0;
}

/* Notes which nodes keep their return addresses, as what they call accesses them. */
static inline void judge_passes(const struct passes *passes, struct graph *graph)
{
	for (size_t number = 0; number < graph->count; number++) {
		struct node *node = &graph->nodes[number];

		for (uint32_t each = node->first_pass; each < node->end_passes; each++) {
			const struct pass *pass = &passes->passes[each];

			if (node->keeps.kind || parameter_of(pass->value))
				continue;
			if (reaches(passes, graph, pass->to, pass->parameter, pass->value,
				    PASSED_ON))
				node->keeps = (struct lbt_cause){LBT_WHY_PASSED,
								 graph->nodes[pass->to].address};
		}
	}
}

#endif
