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
#define LBT_SPARE_ROWS 4096 /* for calls that have jumped before */

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
	free(pairing->events);
	free(pairing->calls);
	free(pairing->depths);
	free(pairing->blobs);
	free(pairing->states);
	free(pairing);
}

static int lbt_make_rows(struct lbt_pairing *pairing, size_t count)
{
	free(pairing->events);
	free(pairing->calls);
	free(pairing->depths);
	free(pairing->blobs);
	free(pairing->states);
	pairing->events = malloc(count * sizeof(struct lbt_event));
	pairing->calls = malloc(count * sizeof(*pairing->calls));
	pairing->depths = malloc(count * sizeof(*pairing->depths));
	pairing->blobs = malloc(count * sizeof(*pairing->blobs));
	pairing->states = malloc(count);
	pairing->capacity = count;
	if (pairing->events && pairing->calls && pairing->depths && pairing->blobs && pairing->states)
		return 0;
	pairing->capacity = 0;
	return -ENOMEM;
}

int lbt_pairing_begin(struct lbt_pairing *pairing, const void *events, size_t count)
{
	const size_t rows = count + LBT_SPARE_ROWS;

	if (rows > INT_MAX)
		return -ENOMEM;
	if (rows > pairing->capacity && lbt_make_rows(pairing, rows))
		return -ENOMEM;
	pairing->given = events;
	pairing->count = count;
	pairing->rows = 0;
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
	if (lbt_reserve_from((char **)&lane->calls, &lane->capacity, lane->count + 1,
			     sizeof(*lane->calls), LBT_FEWEST_CALLS))
		return NULL;
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
		open->jumped = calls[i].jumped;
		open->call = -1 - (int32_t)pairing->earlier_count;
		pairing->earlier[pairing->earlier_count++] = calls[i];
	}
	lbt_place_lane(pairing, pairing->lane_count++);
	return lane;
}

/* Ends a row; whether it is shown. */
static void lbt_row(struct lbt_pairing *pairing, struct lbt_pair_lane *lane, int32_t call,
		    uint32_t depth, uint8_t next)
{
	const int shown = depth < pairing->max_depth;
	const size_t number = pairing->rows++;

	pairing->calls[number] = call;
	pairing->depths[number] = depth;
	pairing->blobs[number] = pairing->blob;
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

/* Frames._enter: nothing ends. */
static int lbt_enter(struct lbt_pairing *pairing, struct lbt_pair_lane *lane,
		     const struct lbt_event *event)
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
		if (open->frame < over || (open->frame == over && !open->jumped))
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
	open->call = pairing->rows;
	open->jumped = 0;
	lane->hooked += probe->hooked;
	lane->returned = 0;
	pairing->entries++;
	lbt_row(pairing, lane, around, depth, LBT_AFTER_ENTRY);
	return 1;
}

/* Whether the call at a place is what an event of this frame ends, for certain. */
static int lbt_ends(const struct lbt_pairing *pairing, const struct lbt_pair_lane *lane,
		    const struct lbt_event *event, size_t place)
{
	const struct lbt_event *events = (const struct lbt_event *)pairing->events;
	const struct lbt_stack_call *open = &lane->calls[place];
	uint64_t start;

	start = open->call < 0 ? pairing->earlier[-1 - open->call].start : events[open->call].time;
	return open->frame == event->frame && start >= lane->lost_before && event->time >= start;
}

/* The innermost call ends. */
static void lbt_end(struct lbt_pairing *pairing, struct lbt_pair_lane *lane,
		    const struct lbt_event *event)
{
	const struct lbt_pair_probe *probe = &pairing->probes[event->probe];
	const int32_t call = lane->calls[lane->count - 1].call;

	lane->hooked -= probe->hooked;
	lane->returned = probe->role != LBT_ROLE_TAIL;
	lane->last_return = event->frame;
	lane->count--;
	if (lane->count < lane->kept)
		lane->kept = lane->count;
	lbt_row(pairing, lane, call, lane->below + lane->count, LBT_AFTER_RETURN);
}

/*
 * How many of the innermost of the first calls have jumped and return with an event of their frame,
 * by a relay the innermost for certain; -1 where that needs a closer look.
 */
static int lbt_count_jumped(const struct lbt_pairing *pairing, const struct lbt_pair_lane *lane,
			    const struct lbt_event *event, size_t first, uint16_t relay)
{
	int found = 0;

	for (size_t place = first; place--; found++) {
		const struct lbt_stack_call *open = &lane->calls[place];
		const struct lbt_pair_probe *jump;

		if (open->frame != event->frame)
			break;
		if (!open->jumped)
			return relay ? -1 : found;
		jump = &pairing->probes[open->jumped - 1];
		if (jump->relay && jump->relay != relay)
			return relay ? -1 : found;
		if (jump->role != LBT_ROLE_GOES_ON || !lbt_ends(pairing, lane, event, place))
			return -1;
		if (relay && !found && jump->relay != relay)
			return -1;
	}
	return relay && !found ? -1 : found;
}

/* Jumps.return_jumped: the innermost calls return, each with the same event. */
static void lbt_return_jumped(struct lbt_pairing *pairing, struct lbt_pair_lane *lane,
			      const struct lbt_event *event, int count)
{
	while (count--) {
		struct lbt_event *row = (struct lbt_event *)pairing->events + pairing->rows;

		*row = *event;
		row->probe = lane->calls[lane->count - 1].jumped - 1;
		lbt_end(pairing, lane, row);
	}
}

/* Frames._leave, Jumps.leave and Jumps.relay. */
static int lbt_leave(struct lbt_pairing *pairing, struct lbt_pair_lane *lane,
		     const struct lbt_event *event)
{
	const struct lbt_pair_probe *probe = &pairing->probes[event->probe];
	const struct lbt_event closing = *event; /* its row may be another's */
	const int relayed = probe->role == LBT_ROLE_RELAY;
	const size_t count = lane->count;
	struct lbt_stack_call *open;
	int jumped;

	if (!count)
		return 0;
	open = &lane->calls[count - 1];
	if (!relayed && (open->probe != probe->entry || !lbt_ends(pairing, lane, event, count - 1)))
		return 0;
	if (probe->role == LBT_ROLE_GOES_ON) {
		if (count >= LBT_MOST_JUMPED &&
		    lane->calls[count - LBT_MOST_JUMPED].frame == event->frame)
			return 0;
		open->jumped = event->probe + 1;
		lane->returned = 0;
		return 1;
	}
	if (probe->role == LBT_ROLE_TAIL && count > 1 && open[-1].frame == event->frame &&
	    open[-1].jumped)
		return 0; /* it ends with it */
	jumped = lbt_count_jumped(pairing, lane, event, count - !relayed, probe->relay);
	if (jumped < 0)
		return 0;
	if (!relayed)
		lbt_end(pairing, lane, event);
	lbt_return_jumped(pairing, lane, &closing, jumped);
	return 1;
}

int lbt_pair(struct lbt_pairing *pairing, size_t *next, uint64_t end)
{
	struct lbt_pair_lane *lane = NULL;

	for (; *next < pairing->count; ++*next) {
		struct lbt_event *event = (struct lbt_event *)pairing->events + pairing->rows;
		uint32_t blob;
		uint8_t role;
		int paired;

		if (pairing->rows + LBT_MOST_JUMPED >= pairing->capacity)
			return LBT_STOPPED;
		memcpy(event, pairing->given + *next * sizeof(*event), sizeof(*event));
		if (event->time >= end || event->probe >= pairing->probe_count)
			return LBT_STOPPED;
		if ((event->kind & LBT_KIND_MASK) == LBT_CALLERS) { /* in no row */
			pairing->blob += event->blob;
			continue;
		}
		role = pairing->probes[event->probe].role;
		if (!(event->kind == LBT_OPEN && role == LBT_ROLE_OPENS) &&
		    !(event->kind == LBT_CLOSE && role > LBT_ROLE_OPENS))
			return LBT_STOPPED;
		if (!lane || !lbt_is_of(lane, event, event->lane))
			lane = lbt_find_lane(pairing, event, event->lane);
		if (!lane)
			return LBT_LANE_UNKNOWN;
		if (event->frame < lane->lowest || event->frame > lane->highest)
			return LBT_STOPPED;
		blob = event->blob;
		paired = role == LBT_ROLE_OPENS ? lbt_enter(pairing, lane, event)
						: lbt_leave(pairing, lane, event);
		if (!paired)
			return LBT_STOPPED;
		pairing->blob += blob;
	}
	return LBT_STOPPED;
}
