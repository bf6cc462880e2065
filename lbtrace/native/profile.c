#include "profile.h"

#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "array.h"
#include "lbtrace.h"

#define LBT_FEWEST_SLOTS 64
#define LBT_BUCKET_BITS 5 /* 32 buckets for each power of two */

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
	uint32_t next_free;
};

struct lbt_profile *lbt_profile_new(int by, size_t most_nodes)
{
	struct lbt_profile *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return NULL;
	profile->by = by;
	profile->most_nodes = most_nodes;
	profile->nodes = calloc(LBT_FEWEST_SLOTS, sizeof(*profile->nodes));
	profile->node_slots = calloc(2 * LBT_FEWEST_SLOTS, sizeof(*profile->node_slots));
	profile->lane_slots = calloc(LBT_FEWEST_SLOTS, sizeof(*profile->lane_slots));
	if (!profile->nodes || !profile->node_slots || !profile->lane_slots) {
		lbt_profile_free(profile);
		return NULL;
	}
	profile->node_count = 1;
	profile->node_capacity = LBT_FEWEST_SLOTS;
	profile->node_slot_count = 2 * LBT_FEWEST_SLOTS;
	profile->lane_slot_count = LBT_FEWEST_SLOTS;
	return profile;
}

void lbt_profile_free(struct lbt_profile *profile)
{
	if (!profile)
		return;
	for (size_t i = 0; i < profile->node_count; i++)
		free(profile->nodes[i].buckets);
	for (size_t i = 0; i < profile->lane_count; i++) {
		free(profile->lanes[i].frames);
		free(profile->lanes[i].open);
	}
	free(profile->nodes);
	free(profile->node_slots);
	free(profile->lanes);
	free(profile->lane_slots);
	free(profile->functions);
	free(profile);
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

static size_t lbt_hash(uint64_t one, uint64_t other)
{
	return ((one * 0x9E3779B97F4A7C15ull) ^ (other + 1) * 0xC2B2AE3D27D4EB4Full) >> 20;
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

static uint32_t lbt_bucket(uint64_t duration)
{
	int shift;

	if (duration < 2 << LBT_BUCKET_BITS)
		return duration;
	shift = 63 - __builtin_clzll(duration) - LBT_BUCKET_BITS;
	return (shift << LBT_BUCKET_BITS) + (duration >> shift);
}

/* The middle of a bucket. */
static uint64_t lbt_middle(uint32_t bucket)
{
	int shift;

	if (bucket < 2 << LBT_BUCKET_BITS)
		return bucket;
	shift = (bucket >> LBT_BUCKET_BITS) - 1;
	return ((((uint64_t)bucket - (shift << LBT_BUCKET_BITS)) << shift) | 1ull << shift >> 1);
}

static int lbt_reach_bucket(struct lbt_profile_node *node, uint32_t bucket)
{
	uint32_t first = bucket & ~15u, end = first + 16;
	uint64_t *buckets;

	if (node->count && bucket >= node->first && bucket < node->first + node->count)
		return 0;
	if (node->count) {
		first = first < node->first ? first : node->first;
		end = end > node->first + node->count ? end : node->first + node->count;
	}
	buckets = calloc(end - first, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	if (node->count)
		memcpy(buckets + (node->first - first), node->buckets,
		       node->count * sizeof(*buckets));
	free(node->buckets);
	node->buckets = buckets;
	node->first = first;
	node->count = end - first;
	return 0;
}

static int lbt_add(struct lbt_profile_node *node, int64_t duration, uint64_t callees, int inside)
{
	const uint64_t took = duration;
	double difference;

	node->calls++;
	if (duration < 0) {
		node->unended += duration == LBT_UNENDED;
		return 0;
	}
	if (lbt_reach_bucket(node, lbt_bucket(took)))
		return -ENOMEM;
	node->buckets[lbt_bucket(took) - node->first]++;
	if (!node->timed || took < node->least)
		node->least = took;
	if (took > node->most)
		node->most = took;
	node->timed++;
	difference = (double)took - node->mean;
	node->mean += difference / node->timed;
	node->squares += difference * ((double)took - node->mean);
	node->own += callees < took ? took - callees : 0;
	if (!inside)
		node->total += took;
	return 0;
}

uint64_t lbt_profile_quantile(const struct lbt_profile_node *node, double part)
{
	uint64_t rank = part * node->timed, passed = 0, found = node->most;

	rank += rank < part * node->timed; /* the least number of calls that are such a part */
	for (uint32_t i = 0; i < node->count; i++) {
		passed += node->buckets[i];
		if (passed && passed >= rank) {
			found = lbt_middle(node->first + i);
			break;
		}
	}
	if (found < node->least)
		return node->least;
	return found < node->most ? found : node->most;
}

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

static struct lbt_profile_lane *lbt_find_lane(struct lbt_profile *profile,
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

static struct lbt_profile_lane *lbt_make_lane(struct lbt_profile *profile,
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

/* Removes a lane that has no calls from the table, and moves those back that it was in the way. */
static void lbt_free_lane(struct lbt_profile *profile, size_t slot)
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

static struct lbt_profile_frame *lbt_push(struct lbt_profile_lane *lane)
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

static int lbt_count_open(struct lbt_profile_lane *lane, uint32_t node)
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
	size_t slot;
	struct lbt_profile_lane *lane = lbt_find_lane(profile, call, &slot);
	struct lbt_profile_frame *frame;
	int64_t node;
	int inside;

	if (!lane)
		lane = lbt_make_lane(profile, call);
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
	size_t slot;
	struct lbt_profile_lane *lane = lbt_find_lane(profile, call, &slot);
	struct lbt_profile_frame frame;
	int error = 0;

	if (!lane || lane->count <= call->depth)
		return 0; /* its beginning was not reported */
	while (lane->count > call->depth + 1)
		lbt_pop(profile, lane);
	frame = lane->frames[call->depth];
	if (!frame.is_uncounted)
		error = lbt_add(&profile->nodes[frame.node], duration, frame.callees,
				frame.is_inside);
	lbt_pop(profile, lane);
	if (lane->count) /* of a call without an end what is known */
		lane->frames[lane->count - 1].callees += duration < 0 ? frame.callees
								      : (uint64_t)duration;
	else
		lbt_free_lane(profile, slot);
	return error;
}

int lbt_profile_count(struct lbt_profile *profile, const struct lbt_profile_call *call,
		      int64_t duration)
{
	size_t slot;
	struct lbt_profile_lane *lane = lbt_find_lane(profile, call, &slot);
	const struct lbt_profile_frame *around = NULL;
	int64_t node;

	if (lane && call->depth && lane->count >= call->depth)
		around = &lane->frames[call->depth - 1];
	node = lbt_find_node(profile, lbt_context(profile, call, around), call->function);
	return node < 0 ? -ENOMEM : lbt_add(&profile->nodes[node], duration, 0, 0);
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
			error = lbt_profile_exit(profile, &call,
						 took > INT64_MAX ? INT64_MAX : (int64_t)took);
		}
		if (error)
			return error;
	}
	return 0;
}
