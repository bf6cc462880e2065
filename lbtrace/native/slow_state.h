/* How native code keeps what waits: lbtrace/native/slow.h. */
#ifndef LBT_SLOW_STATE_H
#define LBT_SLOW_STATE_H

#include "slow.h"

#include <linux/types.h>

#include "lbtrace.h"

/* An open call. Where it is context, ``opening`` waits until something below is shown. */
struct lbt_slow_call {
	uint64_t order; /* of its frame */
	uint64_t start;
	size_t at; /* where its beginning is in what is held */
	uint64_t pointer; /* of a pair: the stack pointer at its marker */
	uint32_t probe;
	uint32_t jumped; /* 1 more than the relay that sees its return */
	struct lbt_slow_events opening;
	uint8_t is_shown;
	uint8_t grown; /* it was too large or too long */
};

/* The first ``base`` calls of ``calls`` are context; the next one may be slow. */
struct lbt_slow_lane {
	struct lbt_slow_lane *next;
	uint64_t lane;
	uint32_t pid, tid;
	struct lbt_slow_call *calls;
	size_t count, capacity, base;
	struct lbt_slow_events held; /* since that one began */
	uint64_t latest;
	uint8_t shown;	 /* it is known to be slow: nothing is held */
	uint8_t grows;	 /* the call that begins now is context */
};

static inline int lbt_has_root(const struct lbt_slow_lane *lane)
{
	return lane->count > lane->base;
}

static inline struct lbt_slow_call *lbt_innermost(const struct lbt_slow_lane *lane)
{
	return lane->count ? &lane->calls[lane->count - 1] : NULL;
}

int lbt_slow_keep(struct lbt_slow_events *kept, const struct lbt_event *event, const char *blob);

/* The same, after the callers of the event that is stepped over, if it is that one. */
int lbt_slow_keep_whole(struct lbt_slow *slow, struct lbt_slow_events *kept,
			const struct lbt_event *event, const char *blob);
void lbt_slow_forget(struct lbt_slow_events *kept);
int lbt_slow_show(struct lbt_slow *slow, const struct lbt_event *event, const char *blob);
int lbt_slow_show_all(struct lbt_slow *slow, const struct lbt_slow_events *kept);

/* Says that a call that is shown was left before an event. */
int lbt_slow_show_left(struct lbt_slow *slow, const struct lbt_slow_lane *lane,
		       const struct lbt_slow_call *call, const struct lbt_event *event);

/* The callers of the event that comes next. */
int lbt_slow_note_callers(struct lbt_slow *slow, const struct lbt_event *event, const char *blob);

/* The same, of those that a thread has sent last, if it has: other threads may send between. */
int lbt_slow_take_callers(struct lbt_slow *slow, uint32_t tid);

/* An event of a lane. */
int lbt_slow_step(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		  const struct lbt_event *event, const char *blob);

/* The same, where its callers are those that were noted last. */
int lbt_slow_step_over(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		       const struct lbt_event *event, const char *blob);

/* Whether the call that may be slow can wait no longer, and what follows from that. */
int lbt_slow_look(struct lbt_slow *slow, struct lbt_slow_lane *lane, uint64_t now);

/* All calls of a lane end unseen; where they surely took longer, they are shown, and open. */
int lbt_slow_end_lane(struct lbt_slow *slow, struct lbt_slow_lane *lane, uint64_t now);

#endif
