/* What was found of the control flow of a function. */
#ifndef LBT_FLOW_VIEW_H
#define LBT_FLOW_VIEW_H

#include "flow.h"

size_t lbt_flow_taken(const struct lbt_flow *flow, const uint64_t **addresses);

/* Notes that a table lies in the code. */
int lbt_flow_table(struct lbt_flow *flow, uint64_t start, uint64_t end);
/* Of an instruction: its length, 0 where none was reached there; whether it was, and shares no byte
   with others or with a table. */
int lbt_flow_length(const struct lbt_flow *flow, uint64_t address);
int lbt_flow_is_certain(const struct lbt_flow *flow, uint64_t address);
/* Those that were reached, or of them those that are certain, and their ends: how many. */
size_t lbt_flow_reached(const struct lbt_flow *flow, int certain, uint64_t *starts, uint64_t *ends);
/* The one that continues to it, or -1; those that jump to it, the last first, and how many. */
int64_t lbt_flow_before(const struct lbt_flow *flow, uint64_t address);
size_t lbt_flow_sources(const struct lbt_flow *flow, uint64_t address, int64_t *into,
			size_t most);
/* Those that continue one to the next, with no jump to between them, up to most; how many. */
size_t lbt_flow_straight_line(const struct lbt_flow *flow, uint64_t address, uint64_t *into,
			size_t most);
/*
 * Of those that were reached, from a position on, those that may take an address; and those that are
 * left to a full decoder. Up to most; how many.
 */
size_t lbt_flow_labels(const struct lbt_flow *flow, size_t since, uint64_t *into, size_t most);
/* The stack at a branch; false where it is none that was reached. */
int lbt_flow_depth(const struct lbt_flow *flow, uint64_t address, int32_t *pointer,
		   int32_t *base);
/* Whether it may lead back to itself, or more than this many instructions lead to it. */
int lbt_flow_in_loop(struct lbt_flow *flow, uint64_t address, size_t most);

#endif
