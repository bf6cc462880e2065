#include "profile_table.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

#define LBT_FEWEST 8

struct lbt_profile_lane **lbt_find_lane(struct lbt_profile *profile,
					const struct lbt_profile_call *call)
{
	const uint64_t of = (uint64_t)call->is_goroutine << 32 | call->pid;
	struct lbt_profile_lane **place =
		&profile->lanes[lbt_hash(of, call->lane) & (LBT_LANE_SLOTS - 1)];

	while (*place && ((*place)->lane != call->lane || (*place)->pid != call->pid ||
			  (*place)->is_goroutine != call->is_goroutine))
		place = &(*place)->next;
	return place;
}

struct lbt_profile_lane *lbt_make_lane(struct lbt_profile *profile,
				       const struct lbt_profile_call *call,
				       struct lbt_profile_lane **place)
{
	struct lbt_profile_lane *lane = profile->spare;

	if (lane)
		profile->spare = lane->next;
	else
		lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->lane = call->lane;
	lane->pid = call->pid;
	lane->is_goroutine = call->is_goroutine;
	lane->next = NULL;
	return *place = lane;
}

void lbt_spare_lane(struct lbt_profile *profile, struct lbt_profile_lane **place)
{
	struct lbt_profile_lane *lane = *place;

	*place = lane->next;
	lane->next = profile->spare;
	profile->spare = lane;
}

void lbt_free_lanes(struct lbt_profile_lane *lane)
{
	while (lane) {
		struct lbt_profile_lane *next = lane->next;

		free(lane->frames);
		free(lane->open);
		free(lane);
		lane = next;
	}
}

struct lbt_profile_frame *lbt_push(struct lbt_profile_lane *lane)
{
	if (lbt_reserve_from((char **)&lane->frames, &lane->capacity, lane->count + 1,
			     sizeof(*lane->frames), LBT_FEWEST))
		return NULL;
	memset(&lane->frames[lane->count], 0, sizeof(*lane->frames));
	return &lane->frames[lane->count++];
}

int lbt_count_open(struct lbt_profile_lane *lane, uint32_t node)
{
	const size_t had = lane->open_capacity;

	if (lbt_reserve_from((char **)&lane->open, &lane->open_capacity, node + 1ul,
			     sizeof(*lane->open), LBT_FEWEST))
		return -ENOMEM;
	memset(lane->open + had, 0, (lane->open_capacity - had) * sizeof(*lane->open));
	return lane->open[node]++ > 0;
}
