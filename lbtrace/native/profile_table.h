/* The lanes of a profile: threads and goroutines that have open calls. */
#ifndef LBT_PROFILE_TABLE_H
#define LBT_PROFILE_TABLE_H

#include "profile.h"

struct lbt_profile_frame {
	uint64_t callees; /* what they took, in ns */
	uint32_t node, function;
	uint8_t is_uncounted;
	uint8_t is_inside; /* of another call of the node */
};

struct lbt_profile_lane {
	uint64_t lane;
	uint32_t pid;
	uint8_t is_goroutine;
	struct lbt_profile_frame *frames;
	size_t count, capacity;
	uint32_t *open; /* by node: its calls that are open; all 0 in a lane without calls */
	size_t open_capacity;
	struct lbt_profile_lane *next;
};

#define LBT_LANE_SLOTS (1 << 16)

static inline size_t lbt_hash(uint64_t one, uint64_t other)
{
	return ((one * 0x9E3779B97F4A7C15ull) ^ (other + 1) * 0xC2B2AE3D27D4EB4Full) >> 20;
}

/* The place in the table of the lane; NULL is there where it has no open calls. */
struct lbt_profile_lane **lbt_find_lane(struct lbt_profile *profile,
					const struct lbt_profile_call *call);

/* Makes it, at that place; NULL where there is no memory. */
struct lbt_profile_lane *lbt_make_lane(struct lbt_profile *profile,
				       const struct lbt_profile_call *call,
				       struct lbt_profile_lane **place);

/* Removes a lane that has no calls from the table; it serves as another one later. */
void lbt_spare_lane(struct lbt_profile *profile, struct lbt_profile_lane **place);

void lbt_free_lanes(struct lbt_profile_lane *lane);

/* The frame of a further call; NULL where there is no memory. */
struct lbt_profile_frame *lbt_push(struct lbt_profile_lane *lane);

/* Counts an open call of a node. Returns whether another one is open, or -ENOMEM. */
int lbt_count_open(struct lbt_profile_lane *lane, uint32_t node);

#endif
