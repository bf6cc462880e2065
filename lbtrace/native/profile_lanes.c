#include "profile_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

/* Lanes: those that have open calls are in the table, the others in a list. */

static size_t lbt_slot(const struct lbt_profile *profile, uint32_t pid, uint8_t is_goroutine,
		       uint64_t lane)
{
	return lbt_hash((uint64_t)is_goroutine << 32 | pid, lane) & (profile->lane_slot_count - 1);
}

static size_t lbt_slot_of(const struct lbt_profile *profile, uint32_t number)
{
	const struct lbt_profile_lane *lane = &profile->lanes[number - 1];

	return lbt_slot(profile, lane->pid, lane->is_goroutine, lane->lane);
}

static void lbt_place_lane(struct lbt_profile *profile, uint32_t number)
{
	size_t at = lbt_slot_of(profile, number);

	while (profile->lane_slots[at])
		at = (at + 1) & (profile->lane_slot_count - 1);
	profile->lane_slots[at] = number;
}

static int lbt_more_lane_slots(struct lbt_profile *profile)
{
	uint32_t *former = profile->lane_slots;
	const size_t count = profile->lane_slot_count;
	uint32_t *slots = calloc(2 * count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	profile->lane_slots = slots;
	profile->lane_slot_count = 2 * count;
	for (size_t i = 0; i < count; i++)
		if (former[i])
			lbt_place_lane(profile, former[i]);
	free(former);
	return 0;
}

struct lbt_profile_lane *lbt_find_lane(struct lbt_profile *profile,
				       const struct lbt_profile_call *call, size_t *slot)
{
	const size_t mask = profile->lane_slot_count - 1;

	for (size_t at = lbt_slot(profile, call->pid, call->is_goroutine, call->lane);;
	     at = (at + 1) & mask) {
		struct lbt_profile_lane *lane;

		if (!profile->lane_slots[at])
			return NULL;
		lane = &profile->lanes[profile->lane_slots[at] - 1];
		if (lane->lane == call->lane && lane->pid == call->pid &&
		    lane->is_goroutine == call->is_goroutine) {
			*slot = at;
			return lane;
		}
	}
}

struct lbt_profile_lane *lbt_make_lane(struct lbt_profile *profile,
				       const struct lbt_profile_call *call)
{
	struct lbt_profile_lane *lane;
	uint32_t number = profile->free_lane;

	if (2 * (profile->open_lanes + 1) > profile->lane_slot_count &&
	    lbt_more_lane_slots(profile))
		return NULL;
	if (number) {
		profile->free_lane = profile->lanes[number - 1].next_free;
	} else {
		if (lbt_reserve((char **)&profile->lanes, &profile->lane_capacity,
				profile->lane_count + 1, sizeof(*profile->lanes)))
			return NULL;
		number = ++profile->lane_count;
		memset(&profile->lanes[number - 1], 0, sizeof(*profile->lanes));
	}
	lane = &profile->lanes[number - 1];
	lane->lane = call->lane;
	lane->pid = call->pid;
	lane->is_goroutine = call->is_goroutine;
	profile->open_lanes++;
	lbt_place_lane(profile, number);
	return lane;
}

void lbt_free_lane(struct lbt_profile *profile, size_t slot)
{
	const size_t mask = profile->lane_slot_count - 1;
	const uint32_t number = profile->lane_slots[slot];

	profile->lanes[number - 1].next_free = profile->free_lane;
	profile->free_lane = number;
	profile->open_lanes--;
	profile->lane_slots[slot] = 0;
	for (size_t at = (slot + 1) & mask; profile->lane_slots[at]; at = (at + 1) & mask) {
		const size_t home = lbt_slot_of(profile, profile->lane_slots[at]);

		if (((at - home) & mask) >= ((at - slot) & mask)) {
			profile->lane_slots[slot] = profile->lane_slots[at];
			profile->lane_slots[at] = 0;
			slot = at;
		}
	}
}

struct lbt_profile_frame *lbt_push(struct lbt_profile_lane *lane)
{
	if (lane->count == lane->capacity) {
		size_t larger = lane->capacity ? 2 * lane->capacity : 8;
		struct lbt_profile_frame *moved = realloc(lane->frames, larger * sizeof(*moved));

		if (!moved)
			return NULL;
		lane->frames = moved;
		lane->capacity = larger;
	}
	memset(&lane->frames[lane->count], 0, sizeof(*lane->frames));
	return &lane->frames[lane->count++];
}

int lbt_count_open(struct lbt_profile_lane *lane, uint32_t node)
{
	if (node >= lane->open_capacity) {
		size_t larger = lane->open_capacity ? lane->open_capacity : 8;
		uint32_t *moved;

		while (larger <= node)
			larger *= 2;
		moved = realloc(lane->open, larger * sizeof(*moved));
		if (!moved)
			return -ENOMEM;
		memset(moved + lane->open_capacity, 0,
		       (larger - lane->open_capacity) * sizeof(*moved));
		lane->open = moved;
		lane->open_capacity = larger;
	}
	return lane->open[node]++ > 0;
}

/* A path has a node for each depth: none is inside of itself. */
