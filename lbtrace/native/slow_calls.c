#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "slow_state.h"

/* Shows the calls around what is shown next. */
static int lbt_show_around(struct lbt_slow *slow, struct lbt_slow_lane *lane)
{
	for (size_t i = 0; i < lane->base; i++) {
		struct lbt_slow_call *call = &lane->calls[i];

		if (call->is_shown)
			continue;
		call->is_shown = 1;
		if (lbt_slow_show_all(slow, &call->opening))
			return -ENOMEM;
	}
	return 0;
}

static void lbt_empty(struct lbt_slow *slow, struct lbt_slow_lane *lane)
{
	slow->waiting -= lane->held.count * sizeof(struct lbt_event) + lane->held.blob_size;
	lane->held.count = lane->held.blob_size = 0;
	if (lane->held.event_capacity > 1 << 16)
		lbt_slow_forget(&lane->held);
}

static int lbt_show_held(struct lbt_slow *slow, struct lbt_slow_lane *lane)
{
	if (lbt_show_around(slow, lane) || lbt_slow_show_all(slow, &lane->held))
		return -ENOMEM;
	lbt_empty(slow, lane);
	return 0;
}

static int lbt_is_grown(const struct lbt_slow_lane *lane)
{
	for (size_t i = 0; i < lane->base; i++)
		if (lane->calls[i].grown)
			return 1;
	return 0;
}

/* What is held is not shown, but for what was lost there. */
static int lbt_drop_held(struct lbt_slow *slow, struct lbt_slow_lane *lane)
{
	const int grown = lbt_is_grown(lane);
	const struct lbt_event *events = (const struct lbt_event *)lane->held.events;
	uint64_t calls = 0;

	for (size_t i = 0; i < lane->held.count; i++) {
		const int kind = events[i].kind & LBT_KIND_MASK;

		calls += kind == LBT_OPEN;
		if (kind == LBT_LOSS && lbt_slow_show(slow, &events[i], ""))
			return -ENOMEM;
	}
	slow->left_out += calls;
	slow->beyond += grown ? calls : 0;
	lbt_empty(slow, lane);
	return 0;
}

/* Frames sort as addresses, those of a stack for signals below all others. */
static uint64_t lbt_order(const struct lbt_event *event)
{
	return event->frame >> 1 | (uint64_t) !(event->kind & LBT_ON_ALTSTACK) << 63;
}

/* The call that may be slow has ended, after so many ns at least, and at most. */
static int lbt_judge(struct lbt_slow *slow, struct lbt_slow_lane *lane, uint64_t least,
		     uint64_t most, int *is_shown)
{
	*is_shown = lane->shown || least > slow->bound;
	lane->shown = 0;
	if (*is_shown)
		return lbt_show_held(slow, lane);
	slow->unsure += most > slow->bound;
	return lbt_drop_held(slow, lane);
}

/* The innermost call has ended by an event, or unseen before it. */
static int lbt_pop(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		   const struct lbt_event *event, const char *blob, int seen)
{
	struct lbt_slow_call *call = &lane->calls[lane->count - 1];
	const size_t place = lane->count - 1;
	const uint64_t most = event->time > call->start ? event->time - call->start : 0;
	uint64_t least = most;
	int is_shown = 0, failed = 0;

	if (!seen)
		least = lane->latest > call->start ? lane->latest - call->start : 0;
	if (place == lane->base) {
		lane->count--;
		failed = lbt_judge(slow, lane, least, most, &is_shown);
	} else if (place < lane->base) {
		if (!call->is_shown && call->grown && least > slow->bound)
			failed = lbt_show_around(slow, lane);
		is_shown = call->is_shown;
		slow->left_out += !is_shown;
		lane->count = lane->base = place;
		lbt_slow_forget(&call->opening);
	} else {
		lane->count--;
		return 0;
	}
	if (failed || !is_shown) {
		slow->jumped += seen && slow->probes[event->probe].unseen;
		return failed;
	}
	return seen ? lbt_slow_show(slow, event, blob) : lbt_slow_show_left(slow, lane, call, event);
}

static int lbt_leave_below(struct lbt_slow *slow, struct lbt_slow_lane *lane,
			   const struct lbt_event *event, uint64_t order)
{
	while (lane->count && lbt_innermost(lane)->order < order)
		if (lbt_pop(slow, lane, event, "", 0))
			return -ENOMEM;
	return 0;
}

/* Whether a call is too large, or has taken too long, to be shown with all below it. */
static int lbt_has_grown(const struct lbt_slow *slow, const struct lbt_slow_lane *lane,
			 const struct lbt_slow_call *call, uint64_t now)
{
	const uint64_t took = now > call->start ? now - call->start : 0;

	return lane->held.count - call->at > LBT_SLOW_EVENTS / 2 ||
	       (slow->longest && took > slow->longest);
}

/*
 * The call that may be slow becomes context, and those inside of it that have grown. What is
 * below them is looked at once more.
 */
static int lbt_demote(struct lbt_slow *slow, struct lbt_slow_lane *lane, uint64_t now)
{
	struct lbt_slow_events held = lane->held, replayed = {}, *callers = slow->callers;
	const void *stepped = slow->stepped;
	const char *blob = held.blobs;
	size_t grown = 0, next = 0, *places;
	int failed = 0;

	places = malloc((lane->count - lane->base) * sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (size_t i = lane->base; i < lane->count; i++) {
		if (grown && !lbt_has_grown(slow, lane, &lane->calls[i], now))
			break;
		places[grown++] = lane->calls[i].at;
	}
	slow->callers = &replayed;
	slow->waiting -= held.count * sizeof(struct lbt_event) + held.blob_size;
	memset(&lane->held, 0, sizeof(lane->held));
	lane->count = lane->base;
	for (size_t i = 0; i < held.count && !failed; i++) {
		struct lbt_event event;

		memcpy(&event, held.events + i * sizeof(event), sizeof(event));
		lane->grows = next < grown && places[next] == i;
		if ((event.kind & LBT_KIND_MASK) == LBT_CALLERS) {
			places[next] += lane->grows; /* it begins with its callers */
			failed = lbt_slow_note_callers(slow, &event, blob);
		} else {
			next += lane->grows;
			failed = lbt_slow_step(slow, lane, &event, blob);
		}
		blob += event.blob;
	}
	lane->grows = 0;
	slow->callers = callers;
	slow->stepped = stepped;
	lbt_slow_forget(&replayed);
	free(places);
	lbt_slow_forget(&held);
	return failed;
}

/* Something happens below a call that may be slow. */
static int lbt_hold(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		    const struct lbt_event *event, const char *blob)
{
	size_t before;

	if (lane->shown)
		return lbt_slow_show(slow, event, blob);
	before = lane->held.count * sizeof(*event) + lane->held.blob_size;
	if (lbt_slow_keep_whole(slow, &lane->held, event, blob))
		return -ENOMEM;
	slow->waiting += lane->held.count * sizeof(*event) + lane->held.blob_size - before;
	return 0;
}

int lbt_slow_look(struct lbt_slow *slow, struct lbt_slow_lane *lane, uint64_t now)
{
	while (lbt_has_root(lane) && !lane->shown) {
		const uint64_t start = lane->calls[lane->base].start;
		const uint64_t took = now > start ? now - start : 0;

		if (!slow->longest && took > slow->bound) {
			lane->shown = 1;
			return lbt_show_held(slow, lane);
		}
		if (lane->held.count < LBT_SLOW_EVENTS && slow->waiting < slow->most &&
		    !(slow->longest && took > slow->longest))
			return 0;
		if (lbt_demote(slow, lane, now))
			return -ENOMEM;
	}
	return 0;
}

static int lbt_open(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		    const struct lbt_event *event, const char *blob, int is_pair)
{
	const struct lbt_slow_probe *probe = &slow->probes[event->probe];
	struct lbt_slow_call opened = { .order = lbt_order(event), .start = event->time,
					.pointer = lbt_order(event), .probe = event->probe,
					.at = lane->held.count, .grown = lane->grows };
	struct lbt_slow_call *call = lbt_innermost(lane);

	if (is_pair)
		opened.order = call ? call->order : ~0ull;
	if (call && (is_pair ? call->probe == event->probe && call->pointer <= opened.pointer &&
				       !probe->hooked
			     : call->order == opened.order && !call->jumped &&
				       !slow->probes[call->probe].hooked) &&
	    lbt_pop(slow, lane, event, "", 0))
		return -ENOMEM;
	if (lbt_reserve((char **)&lane->calls, &lane->capacity,
			(lane->count + 1) * sizeof(opened), 1))
		return -ENOMEM;
	call = &lane->calls[lane->count];
	*call = opened;
	if (!lbt_has_root(lane) && (!probe->chosen || call->grown)) {
		lane->base++;
		lane->count++;
		return lbt_slow_keep_whole(slow, &call->opening, event, blob);
	}
	lane->count++;
	return lbt_hold(slow, lane, event, blob);
}

/* Ends the calls at a place and inside it with an event. */
static int lbt_pop_to(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		      const struct lbt_event *event, const char *blob, size_t place)
{
	while (lane->count > place + 1)
		if (lbt_pop(slow, lane, event, "", 0))
			return -ENOMEM;
	if (place > lane->base) {
		lane->count--;
		return lbt_hold(slow, lane, event, blob);
	}
	return lbt_pop(slow, lane, event, blob, 1);
}

static int lbt_pass_below(struct lbt_slow *slow, struct lbt_slow_lane *lane,
			  const struct lbt_event *event, const char *blob)
{
	return lbt_has_root(lane) ? lbt_hold(slow, lane, event, blob) : 0;
}

static int lbt_close(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		     const struct lbt_event *event, const char *blob)
{
	const struct lbt_slow_probe *probe = &slow->probes[event->probe];
	const uint64_t order = lbt_order(event);
	size_t place = lane->count;
	struct lbt_slow_call *call;

	while (place && lane->calls[place - 1].order == order &&
	       (probe->role == LBT_SLOW_RELAY || lane->calls[place - 1].probe != probe->entry))
		place--;
	if (probe->role == LBT_SLOW_RELAY)
		place = lane->count;
	else if (!place || lane->calls[place - 1].order != order)
		return lbt_has_root(lane) ? lbt_hold(slow, lane, event, blob)
					  : lbt_slow_show(slow, event, blob);
	if (probe->role == LBT_SLOW_JUMPS) {
		lane->calls[place - 1].jumped = 1 + probe->relay;
		call = &lane->calls[place - 1];
		if (place - 1 >= lane->base)
			return lbt_hold(slow, lane, event, blob);
		return call->is_shown ? lbt_slow_show(slow, event, blob)
				  : lbt_slow_keep(&call->opening, event, blob);
	}
	if (probe->role != LBT_SLOW_RELAY)
		place--;
	/* those return with it that have jumped here */
	while (place) {
		call = &lane->calls[place - 1];
		if (call->order != order || !call->jumped ||
		    (call->jumped > 1 && call->jumped != 1u + probe->relay))
			break;
		place--;
	}
	if (place == lane->count)
		return lbt_pass_below(slow, lane, event, blob);
	return lbt_pop_to(slow, lane, event, blob, place);
}

static int lbt_close_pair(struct lbt_slow *slow, struct lbt_slow_lane *lane,
			  const struct lbt_event *event, const char *blob)
{
	const uint32_t entry = slow->probes[event->probe].entry;

	for (size_t place = lane->count; place--;) {
		if (lane->calls[place].probe == entry)
			return lbt_pop_to(slow, lane, event, blob, place);
		if (slow->probes[lane->calls[place].probe].role != LBT_SLOW_PAIR_OPENS)
			break;
	}
	return lbt_pass_below(slow, lane, event, blob);
}

static int lbt_land(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		    const struct lbt_event *event, const char *blob)
{
	const uint64_t order = lbt_order(event);
	size_t place = lane->count;

	while (place && lane->calls[place - 1].order <= order)
		place--;
	if (place == lane->count)
		return lbt_pass_below(slow, lane, event, blob);
	return lbt_pop_to(slow, lane, event, blob, place);
}

int lbt_slow_step_over(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		       const struct lbt_event *event, const char *blob)
{
	const int kind = event->kind & LBT_KIND_MASK;
	const int role = event->probe < slow->probe_count ? slow->probes[event->probe].role
							  : LBT_SLOW_PASSES;
	int failed = 0;

	if (lbt_slow_look(slow, lane, event->time))
		return -ENOMEM;
	if (kind == LBT_LOSS)
		return lbt_has_root(lane) ? lbt_hold(slow, lane, event, blob)
					  : lbt_slow_show(slow, event, blob);
	if (role == LBT_SLOW_PASSES)
		return lbt_slow_show(slow, event, blob);
	if (kind == LBT_UNWOUND || role == LBT_SLOW_LANDS) {
		failed = lbt_land(slow, lane, event, blob);
	} else {
		failed = lbt_leave_below(slow, lane, event, lbt_order(event));
		if (failed)
			return failed;
		if (role == LBT_SLOW_OPENS || role == LBT_SLOW_PAIR_OPENS)
			failed = lbt_open(slow, lane, event, blob, role == LBT_SLOW_PAIR_OPENS);
		else if (role == LBT_SLOW_PAIR_CLOSES)
			failed = lbt_close_pair(slow, lane, event, blob);
		else if (role == LBT_SLOW_OTHER)
			failed = lbt_pass_below(slow, lane, event, blob);
		else
			failed = lbt_close(slow, lane, event, blob);
	}
	lane->latest = event->time;
	return failed;
}

int lbt_slow_end_lane(struct lbt_slow *slow, struct lbt_slow_lane *lane, uint64_t now)
{
	size_t shown_count = 0;

	if (lbt_has_root(lane) && !lane->shown) {
		const struct lbt_slow_call *call = &lane->calls[lane->base];
		const uint64_t until = slow->probes[call->probe].watched ? now : lane->latest;
		const uint64_t took = until > call->start ? until - call->start : 0;
		int is_shown;

		if (lbt_judge(slow, lane, took, now - call->start, &is_shown))
			return -ENOMEM;
	}
	for (size_t i = 0; i < lane->base; i++) {
		struct lbt_slow_call *call = &lane->calls[i];

		if (slow->probes[call->probe].chosen && now > call->start &&
		    now - call->start > slow->bound)
			shown_count = i + 1;
	}
	for (size_t i = 0; i < lane->base; i++) {
		struct lbt_slow_call *call = &lane->calls[i];

		if (i < shown_count && !call->is_shown && lbt_slow_show_all(slow, &call->opening))
			return -ENOMEM;
		slow->left_out += i >= shown_count && !call->is_shown;
		lbt_slow_forget(&call->opening);
	}
	lane->count = lane->base = 0;
	lane->shown = 0;
	return 0;
}
