/*
 * Keeps what slow calls are made of, and leaves out the rest: events in, fewer events out. Below a
 * call that may turn out slow, events wait in memory until it has ended.
 */
#ifndef LBT_SLOW_H
#define LBT_SLOW_H

#include <stddef.h>
#include <stdint.h>

/* What an event of a probe means, here. */
enum {
	LBT_SLOW_OTHER = 0,	  /* a point, or nothing that is known */
	LBT_SLOW_OPENS = 1,
	LBT_SLOW_CLOSES = 2,
	LBT_SLOW_JUMPS = 3,	  /* the call goes on in another function, whose return is its own */
	LBT_SLOW_RELAY = 4,	  /* calls return that have jumped */
	LBT_SLOW_PAIR_OPENS = 5,  /* a marker; its call has no frame of its own */
	LBT_SLOW_PAIR_CLOSES = 6,
	LBT_SLOW_LANDS = 7,	  /* calls of the frame and below are over */
	LBT_SLOW_PASSES = 8,	  /* nothing is understood without it */
};

struct lbt_slow_probe {
	uint32_t entry; /* the probe that opens the calls that this one closes, or of the same pair */
	uint16_t relay;
	uint8_t role;
	uint8_t hooked; /* a uretprobe sees the returns: calls that jump return, too */
	uint8_t watched; /* returns are seen */
	uint8_t unseen; /* the call ends here, but returns later, unseen */
	uint8_t chosen; /* calls of it can be slow; others are shown around these */
};

/* Events with what accompanies them. */
struct lbt_slow_events {
	char *events, *blobs;
	size_t count, blob_size, event_capacity, blob_capacity;
};

struct lbt_slow {
	struct lbt_slow_events shown; /* what is to be shown */
	size_t entries;	      /* how many of them begin a call */
	uint64_t left_out;    /* calls, in all, that were neither slow nor below such a call */
	uint64_t beyond;      /* those of them that were below a call that was too large or too long */
	uint64_t jumped;      /* those of them that jumped to functions whose return is not seen */
	uint64_t unsure;      /* calls without an end, perhaps slow */
	uint64_t bound;	      /* ns */
	uint64_t longest;     /* ns: calls that take longer are context from then on; 0: none */
	size_t most;	      /* bytes that wait, in all */
	size_t waiting;
	struct lbt_slow_probe *probes;
	size_t probe_count;
	struct lbt_slow_lane **lanes; /* a hash table of lists */
	size_t slot_count, lane_count;
	struct lbt_slow_events *callers; /* those of the event that comes next, or none */
	struct lbt_slow_events sent; /* callers of events of other threads that are to come */
	const void *stepped;		 /* that event */
};

enum { LBT_SLOW_EVENTS = 32768 }; /* that wait in a lane, at most */

/* NULL where there is no memory. All that follow return 0, or -ENOMEM. */
struct lbt_slow *lbt_slow_new(uint64_t bound, uint64_t longest, size_t most);
void lbt_slow_free(struct lbt_slow *slow);
int lbt_slow_learn(struct lbt_slow *slow, const struct lbt_slow_probe *probes, size_t count);

/* Replaces what is to be shown by what follows from these events, struct lbt_event each. */
int lbt_slow_feed(struct lbt_slow *slow, const void *events, size_t count, const void *blobs);

/* The same from the time that it is now: calls that take too long become context. */
int lbt_slow_tick(struct lbt_slow *slow, uint64_t now);

/* The same where all calls end unseen. */
int lbt_slow_end(struct lbt_slow *slow, uint64_t now);

#endif
