#include "pairing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "array.h"
#include "lbtrace.h"

#define LBT_MAX_HOOKED 64 /* MAX_URETPROBE_DEPTH, include/linux/uprobes.h */
#define LBT_FEWEST_SLOTS 64
#define LBT_FEWEST_CALLS 16

struct lbt_pairing *lbt_pairing_new(const struct lbt_pair_probe *probes, size_t count,
				    uint32_t max_depth)
{
	struct lbt_pairing *pairing = calloc(1, sizeof(*pairing));

	if (!pairing)
		return NULL;
	pairing->probes = probes;
	pairing->probe_count = count;
	pairing->max_depth = max_depth;
	return pairing;
}

void lbt_pairing_free(struct lbt_pairing *pairing)
{
	if (!pairing)
		return;
	for (size_t i = 0; i < pairing->lane_capacity; i++)
		free(pairing->lanes[i].calls);
	free(pairing->lanes);
	free(pairing->slots);
	free(pairing->earlier);
	free(pairing->calls);
	free(pairing->depths);
	free(pairing->blobs);
	free(pairing->states);
	free(pairing);
}

static int lbt_make_rows(struct lbt_pairing *pairing, size_t count)
{
	free(pairing->calls);
	free(pairing->depths);
	free(pairing->blobs);
	free(pairing->states);
	pairing->calls = malloc(count * sizeof(*pairing->calls));
	pairing->depths = malloc(count * sizeof(*pairing->depths));
	pairing->blobs = malloc(count * sizeof(*pairing->blobs));
	pairing->states = malloc(count);
	pairing->capacity = count;
	if (pairing->calls && pairing->depths && pairing->blobs && pairing->states)
		return 0;
	pairing->capacity = 0;
	return -ENOMEM;
}

int lbt_pairing_begin(struct lbt_pairing *pairing, void *events, size_t count)
{
	if (count > INT_MAX)
		return -ENOMEM;
	if (count > pairing->capacity && lbt_make_rows(pairing, count))
		return -ENOMEM;
	pairing->events = events;
	pairing->count = count;
	pairing->entries = pairing->lane_count = pairing->earlier_count = 0;
	pairing->deepest = pairing->blob = 0;
	if (pairing->slots)
		memset(pairing->slots, 0, pairing->slot_count * sizeof(*pairing->slots));
	return 0;
}

static size_t lbt_slot(const struct lbt_pairing *pairing, uint32_t pid, uint32_t tid,
		       uint64_t goroutine)
{
	uint64_t key = goroutine ? goroutine << 22 ^ pid : tid;

	return (key * 0x9E3779B97F4A7C15ull >> 32) & (pairing->slot_count - 1);
}

static int lbt_is_of(const struct lbt_pair_lane *lane, const struct lbt_event *event,
		     uint64_t goroutine)
{
	return lane->pid == event->pid && lane->goroutine == goroutine &&
	       (goroutine || lane->tid == event->tid);
}

static struct lbt_pair_lane *lbt_find_lane(struct lbt_pairing *pairing,
					   const struct lbt_event *event, uint64_t goroutine)
{
	if (!pairing->slot_count)
		return NULL;
	for (size_t at = lbt_slot(pairing, event->pid, event->tid, goroutine);;
	     at = (at + 1) & (pairing->slot_count - 1)) {
		struct lbt_pair_lane *lane;

		if (!pairing->slots[at])
			return NULL;
		lane = &pairing->lanes[pairing->slots[at] - 1];
		if (lbt_is_of(lane, event, goroutine))
			return lane;
	}
}

static void lbt_place_lane(struct lbt_pairing *pairing, size_t number)
{
	const struct lbt_pair_lane *lane = &pairing->lanes[number];
	size_t at = lbt_slot(pairing, lane->pid, lane->tid, lane->goroutine);

	while (pairing->slots[at])
		at = (at + 1) & (pairing->slot_count - 1);
	pairing->slots[at] = number + 1;
}

/* Room for one more lane, and a hash table that is half empty. */
static int lbt_make_lane(struct lbt_pairing *pairing)
{
	const size_t had = pairing->lane_capacity;

	if (lbt_reserve((char **)&pairing->lanes, &pairing->lane_capacity,
			pairing->lane_count + 1, sizeof(*pairing->lanes)))
		return -ENOMEM;
	memset(pairing->lanes + had, 0, (pairing->lane_capacity - had) * sizeof(*pairing->lanes));
	if (2 * (pairing->lane_count + 1) > pairing->slot_count) {
		size_t wanted = pairing->slot_count ? 2 * pairing->slot_count : LBT_FEWEST_SLOTS;
		uint32_t *slots = calloc(wanted, sizeof(*slots));

		if (!slots)
			return -ENOMEM;
		free(pairing->slots);
		pairing->slots = slots;
		pairing->slot_count = wanted;
		for (size_t i = 0; i < pairing->lane_count; i++)
			lbt_place_lane(pairing, i);
	}
	return 0;
}

static struct lbt_stack_call *lbt_push(struct lbt_pair_lane *lane)
{
	if (lane->count == lane->capacity) {
		size_t larger = lane->capacity ? 2 * lane->capacity : LBT_FEWEST_CALLS;
		struct lbt_stack_call *moved = realloc(lane->calls, larger * sizeof(*moved));

		if (!moved)
			return NULL;
		lane->calls = moved;
		lane->capacity = larger;
	}
	return &lane->calls[lane->count++];
}

struct lbt_pair_lane *lbt_pairing_lane(struct lbt_pairing *pairing, uint32_t pid, uint32_t tid,
				       uint64_t goroutine, const struct lbt_earlier_call *calls,
				       size_t count)
{
	struct lbt_pair_lane *lane, fresh = { .pid = pid, .tid = tid, .goroutine = goroutine };

	if (lbt_make_lane(pairing) ||
	    lbt_reserve((char **)&pairing->earlier, &pairing->earlier_capacity,
			pairing->earlier_count + count, sizeof(*pairing->earlier)))
		return NULL;
	lane = &pairing->lanes[pairing->lane_count];
	fresh.calls = lane->calls;
	fresh.capacity = lane->capacity;
	fresh.kept = count;
	fresh.first = LBT_NO_CALL;
	fresh.highest = ~0ull;
	*lane = fresh;
	for (size_t i = 0; i < count; i++) {
		struct lbt_stack_call *open = lbt_push(lane);

		if (!open)
			return NULL;
		open->frame = calls[i].frame;
		open->probe = calls[i].probe;
		open->call = -1 - (int32_t)pairing->earlier_count;
		pairing->earlier[pairing->earlier_count++] = calls[i];
	}
	lbt_place_lane(pairing, pairing->lane_count++);
	return lane;
}

/* Records a row; whether it is shown. */
static void lbt_row(struct lbt_pairing *pairing, struct lbt_pair_lane *lane, size_t number,
		    int32_t call, uint32_t depth, uint8_t next)
{
	const int shown = depth < pairing->max_depth;

	pairing->calls[number] = call;
	pairing->depths[number] = depth;
	pairing->states[number] = shown ? lane->state : LBT_HIDDEN;
	if (!shown)
		return;
	if (lane->first == LBT_NO_CALL)
		lane->first = number;
	if (lane->state != next)
		lane->since = number;
	lane->state = next;
	if (depth > pairing->deepest)
		pairing->deepest = depth;
}

/* CallMatcher._enter: nothing ends. */
static int lbt_enter(struct lbt_pairing *pairing, struct lbt_pair_lane *lane,
		     const struct lbt_event *event, size_t number)
{
	const struct lbt_pair_probe *probe = &pairing->probes[event->probe];
	const uint32_t depth = lane->below + lane->count;
	uint64_t over = event->frame;
	int32_t around = LBT_NO_CALL;
	struct lbt_stack_call *open;

	if (lane->returned && lane->last_return >= over)
		over = lane->last_return + 1;
	if (lane->count) {
		open = &lane->calls[lane->count - 1];
		if (open->frame <= over)
			return 0;
		around = open->call;
	}
	if (probe->hooked && lane->hooked >= LBT_MAX_HOOKED)
		return 0;
	open = lbt_push(lane);
	if (!open)
		return 0;
	open->frame = event->frame;
	open->probe = event->probe;
	open->call = number;
	lane->hooked += probe->hooked;
	lane->returned = 0;
	pairing->entries++;
	lbt_row(pairing, lane, number, around, depth, LBT_AFTER_ENTRY);
	return 1;
}

/* CallMatcher._leave and _leave_by_jump: the innermost call ends. */
static int lbt_leave(struct lbt_pairing *pairing, struct lbt_pair_lane *lane,
		     const struct lbt_event *event, size_t number)
{
	const struct lbt_pair_probe *probe = &pairing->probes[event->probe];
	const struct lbt_event *events = (const struct lbt_event *)pairing->events;
	const struct lbt_stack_call *open;
	uint64_t start;

	if (!lane->count)
		return 0;
	open = &lane->calls[lane->count - 1];
	if (open->frame != event->frame || open->probe != probe->entry)
		return 0;
	start = open->call < 0 ? pairing->earlier[-1 - open->call].start : events[open->call].time;
	if (start < lane->lost_before || event->time < start)
		return 0;
	lane->hooked -= probe->hooked;
	lane->returned = probe->role == LBT_ROLE_CLOSES;
	lane->last_return = event->frame;
	lane->count--;
	if (lane->count < lane->kept)
		lane->kept = lane->count;
	lbt_row(pairing, lane, number, open->call, lane->below + lane->count, LBT_AFTER_RETURN);
	return 1;
}

int lbt_pair(struct lbt_pairing *pairing, size_t *next, uint64_t end)
{
	struct lbt_event *events = (struct lbt_event *)pairing->events;
	struct lbt_pair_lane *lane = NULL;

	for (; *next < pairing->count; ++*next) {
		struct lbt_event *event = &events[*next];
		uint64_t goroutine;
		uint16_t kind;
		uint8_t role;
		int paired;

		if (event->time >= end || event->probe >= pairing->probe_count)
			return LBT_STOPPED;
		role = pairing->probes[event->probe].role;
		kind = event->kind;
		goroutine = event->goroutine;
		if (kind & LBT_THREAD_POINTER) {
			kind &= ~LBT_THREAD_POINTER;
			goroutine = 0;
		}
		if (!(kind == LBT_OPEN && role == LBT_ROLE_OPENS) &&
		    !(kind == LBT_CLOSE && (role == LBT_ROLE_CLOSES || role == LBT_ROLE_TAIL)))
			return LBT_STOPPED;
		if (!lane || !lbt_is_of(lane, event, goroutine))
			lane = lbt_find_lane(pairing, event, goroutine);
		if (!lane)
			return LBT_LANE_UNKNOWN;
		if (event->frame < lane->lowest || event->frame > lane->highest)
			return LBT_STOPPED;
		event->kind = kind;
		event->goroutine = goroutine;
		pairing->blobs[*next] = pairing->blob;
		paired = role == LBT_ROLE_OPENS ? lbt_enter(pairing, lane, event, *next)
						: lbt_leave(pairing, lane, event, *next);
		if (!paired)
			return LBT_STOPPED;
		pairing->blob += event->blob;
	}
	return LBT_STOPPED;
}
