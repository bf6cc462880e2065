#include "profile_table.h"

#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "array.h"
#include "lbtrace.h"

#define LBT_FEWEST_SLOTS 64

struct lbt_profile *lbt_profile_new(int by, size_t most_nodes)
{
	struct lbt_profile *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return NULL;
	profile->by = by;
	profile->most_nodes = most_nodes;
	profile->nodes = calloc(LBT_FEWEST_SLOTS, sizeof(*profile->nodes));
	profile->node_slots = calloc(2 * LBT_FEWEST_SLOTS, sizeof(*profile->node_slots));
	profile->lanes = calloc(LBT_LANE_SLOTS, sizeof(*profile->lanes));
	if (!profile->nodes || !profile->node_slots || !profile->lanes) {
		lbt_profile_free(profile);
		return NULL;
	}
	profile->node_count = 1;
	profile->node_capacity = LBT_FEWEST_SLOTS;
	profile->node_slot_count = 2 * LBT_FEWEST_SLOTS;
	return profile;
}

void lbt_profile_free(struct lbt_profile *profile)
{
	if (!profile)
		return;
	for (size_t i = 0; i < profile->node_count; i++)
		free(profile->nodes[i].buckets);
	for (size_t i = 0; profile->lanes && i < LBT_LANE_SLOTS; i++)
		lbt_free_lanes(profile->lanes[i]);
	lbt_free_lanes(profile->spare);
	free(profile->nodes);
	free(profile->node_slots);
	free(profile->lanes);
	free(profile->functions);
	free(profile);
}

void lbt_profile_restart(struct lbt_profile *profile)
{
	for (size_t i = 1; i < profile->node_count; i++)
		lbt_profile_clear(&profile->nodes[i]);
}

int lbt_profile_learn(struct lbt_profile *profile, const uint32_t *functions, size_t count)
{
	uint32_t *copy = malloc(count * sizeof(*copy) + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, functions, count * sizeof(*copy));
	free(profile->functions);
	profile->functions = copy;
	profile->function_count = count;
	return 0;
}

/* Nodes: none is removed. */

static void lbt_place_node(struct lbt_profile *profile, uint32_t number)
{
	const struct lbt_profile_node *node = &profile->nodes[number];
	size_t at = lbt_hash(node->context, node->function);

	for (at &= profile->node_slot_count - 1; profile->node_slots[at];)
		at = (at + 1) & (profile->node_slot_count - 1);
	profile->node_slots[at] = number;
}

static int lbt_more_nodes(struct lbt_profile *profile)
{
	const size_t larger = 2 * profile->node_capacity;
	struct lbt_profile_node *nodes = realloc(profile->nodes, larger * sizeof(*nodes));
	uint32_t *slots;

	if (!nodes)
		return -ENOMEM;
	profile->nodes = nodes;
	slots = calloc(2 * larger, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(profile->node_slots);
	profile->node_slots = slots;
	profile->node_capacity = larger;
	profile->node_slot_count = 2 * larger;
	for (size_t i = 1; i < profile->node_count; i++)
		lbt_place_node(profile, i);
	return 0;
}

/* The number of a node, 0 where there is no room for it, or -ENOMEM. */
static int64_t lbt_find_node(struct lbt_profile *profile, uint64_t context, uint32_t function)
{
	struct lbt_profile_node *node;

	for (size_t at = lbt_hash(context, function);; at++) {
		const uint32_t number = profile->node_slots[at & (profile->node_slot_count - 1)];

		node = &profile->nodes[number];
		if (!number)
			break;
		if (node->context == context && node->function == function)
			return number;
	}
	if (profile->node_count > profile->most_nodes)
		return 0;
	if (profile->node_count == profile->node_capacity && lbt_more_nodes(profile))
		return -ENOMEM;
	node = &profile->nodes[profile->node_count];
	memset(node, 0, sizeof(*node));
	node->context = context;
	node->function = function;
	lbt_place_node(profile, profile->node_count);
	return profile->node_count++;
}

static int lbt_may_recur(const struct lbt_profile *profile, const struct lbt_profile_frame *frame)
{
	return frame->node && profile->by != LBT_BY_PATH && !frame->is_uncounted;
}

static void lbt_pop(struct lbt_profile *profile, struct lbt_profile_lane *lane)
{
	const struct lbt_profile_frame *frame = &lane->frames[--lane->count];

	if (lbt_may_recur(profile, frame))
		lane->open[frame->node]--;
}

static uint64_t lbt_context(const struct lbt_profile *profile, const struct lbt_profile_call *call,
			    const struct lbt_profile_frame *around)
{
	switch (profile->by) {
	case LBT_BY_THREAD:
		return (uint64_t)call->pid << 32 | call->tid;
	case LBT_BY_CALLER:
		return around ? around->function + 1ull : 0;
	case LBT_BY_PATH:
		return around ? around->node + 1ull : 0;
	case LBT_BY_GIVEN:
		return call->context;
	default:
		return 0;
	}
}

int lbt_profile_enter(struct lbt_profile *profile, const struct lbt_profile_call *call)
{
	struct lbt_profile_lane **place = lbt_find_lane(profile, call), *lane = *place;
	struct lbt_profile_frame *frame;
	int64_t node;
	int inside;

	if (!lane)
		lane = lbt_make_lane(profile, call, place);
	if (!lane)
		return -ENOMEM;
	while (lane->count > call->depth)
		lbt_pop(profile, lane);
	while (lane->count < call->depth) { /* calls that are not shown */
		frame = lbt_push(lane);
		if (!frame)
			return -ENOMEM;
		frame->is_uncounted = 1;
		frame->function = ~0u - 1;
	}
	frame = lane->count ? &lane->frames[lane->count - 1] : NULL;
	node = lbt_find_node(profile, lbt_context(profile, call, frame), call->function);
	frame = lbt_push(lane);
	if (node < 0 || !frame)
		return -ENOMEM;
	frame->node = node;
	frame->function = call->function;
	frame->is_uncounted = call->is_uncounted;
	if (!lbt_may_recur(profile, frame))
		return 0;
	inside = lbt_count_open(lane, node);
	frame->is_inside = inside > 0;
	return inside < 0 ? inside : 0;
}

int lbt_profile_exit(struct lbt_profile *profile, const struct lbt_profile_call *call,
		     int64_t duration)
{
	struct lbt_profile_lane **place = lbt_find_lane(profile, call), *lane = *place;
	struct lbt_profile_frame frame;
	int64_t node;
	int error = 0;

	if (!lane || lane->count <= call->depth)
		return 0; /* its beginning was not reported */
	while (lane->count > call->depth + 1)
		lbt_pop(profile, lane);
	frame = lane->frames[call->depth];
	if (profile->by == LBT_BY_GIVEN && !frame.is_uncounted) { /* more may be known now */
		node = lbt_find_node(profile, call->context, frame.function);
		if (node < 0)
			return -ENOMEM;
		frame.node = node;
	}
	if (!frame.is_uncounted)
		error = lbt_profile_add(&profile->nodes[frame.node], duration, frame.callees,
				frame.is_inside);
	lbt_pop(profile, lane);
	if (lane->count) /* of a call without an end what is known */
		lane->frames[lane->count - 1].callees += duration < 0 ? frame.callees
								      : (uint64_t)duration;
	else
		lbt_spare_lane(profile, place);
	return error;
}

int lbt_profile_count(struct lbt_profile *profile, const struct lbt_profile_call *call,
		      int64_t duration)
{
	const struct lbt_profile_lane *lane = *lbt_find_lane(profile, call);
	const struct lbt_profile_frame *around = NULL;
	int64_t node;

	if (lane && call->depth && lane->count >= call->depth)
		around = &lane->frames[call->depth - 1];
	node = lbt_find_node(profile, lbt_context(profile, call, around), call->function);
	return node < 0 ? -ENOMEM : lbt_profile_add(&profile->nodes[node], duration, 0, 0);
}

int lbt_profile_batch(struct lbt_profile *profile, const struct lbt_pairing *pairing)
{
	const struct lbt_event *events = (const struct lbt_event *)pairing->events;

	for (size_t row = 0; row < pairing->rows; row++) {
		const struct lbt_event *event = &events[row];
		const int32_t opened = pairing->calls[row];
		struct lbt_profile_call call = {
			.lane = event->lane ? event->lane : event->tid,
			.pid = event->pid,
			.tid = event->tid,
			.depth = pairing->depths[row],
			.is_goroutine = event->lane != 0,
		};
		uint64_t start, took;
		int error;

		if (call.depth >= pairing->max_depth || event->probe >= profile->function_count)
			continue;
		if (pairing->probes[event->probe].role == LBT_ROLE_OPENS) {
			call.function = profile->functions[event->probe];
			error = lbt_profile_enter(profile, &call);
		} else {
			start = opened < 0 ? pairing->earlier[-1 - opened].start
					   : events[opened].time;
			took = event->time - start;
			took = took > INT64_MAX ? INT64_MAX : took;
			if (pairing->probes[event->probe].role == LBT_ROLE_TAIL)
				took = LBT_JUMPED;
			error = lbt_profile_exit(profile, &call, (int64_t)took);
		}
		if (error)
			return error;
	}
	return 0;
}
