/* What is known while code is followed: see follow.h. */
#ifndef LBT_FOLLOW_STATE_H
#define LBT_FOLLOW_STATE_H

#include "array.h"
#include "code_graph.h"
#include "follow.h"
#include "passed.h"
#include "reach.h"
#include "symbol_extents.h"

struct reached {
	const uint64_t *calls, *call_slots, *jumps, *jump_slots;
	const int32_t *depths;
	size_t call_count, call_slot_count, jump_count, jump_slot_count;
	struct lbt_cause doubt;
	int keeps, walks, unread, jumps_away;
	const uint64_t *labels;
	size_t label_count;
	int32_t label_depth;
	const struct lbt_reach *passed; /* NULL where native code did not read it */
	const struct lbt_handed *handed;
	const struct lbt_access *accesses;
	size_t handed_count, access_count;
};

struct meaning {
	uint8_t kind;
	uint64_t address;
};

struct lbt_follow {
	struct lbt_followed_file file;
	struct lbt_question *question;
	struct graph graph;
	size_t roots, next;
	struct meaning *meanings;
	struct extent *extents; /* answers about the node that is looked at */
	size_t extent_count, extent_capacity;
	uint64_t room_end, end; /* the latter of the code of the node */
	int begun, has_room, alone, has_reached;
	int from_function;
	int64_t kept; /* the keeper in code that is no function, or -1 */
	struct reached reached;
	struct passes passes;
	struct lbt_reach found;
};

#endif
