/*
 * Pairs the returns of calls with their entries, where that takes no more than a look at the
 * innermost call. All else is left to lbtrace/calls/matcher.py, whose rules these are.
 */
#ifndef LBT_PAIRING_H
#define LBT_PAIRING_H

#include <stddef.h>
#include <stdint.h>

/* What an event of a probe means, here. */
enum {
	LBT_ROLE_OTHER = 0,
	LBT_ROLE_OPENS = 1,
	LBT_ROLE_CLOSES = 2,
	LBT_ROLE_TAIL = 3,
	LBT_ROLE_GOES_ON = 4, /* a jump, after which the call goes on; then, in rows, its return */
	LBT_ROLE_RELAY = 5,   /* calls return that have jumped */
};

struct lbt_pair_probe {
	uint32_t entry; /* the probe that opens the calls that this one closes */
	uint8_t role;
	uint8_t hooked; /* a uretprobe sees the returns */
	uint16_t relay; /* see Probe in lbtrace/model/plan.py */
};

#define LBT_MOST_JUMPED 64 /* calls of one frame: see lbtrace/calls/tail_calls.py */

/*
 * A call of a fast batch is the number of the row that opened it; one that was open before is
 * counted from -1 downwards.
 */
#define LBT_NO_CALL 2147483647

struct lbt_stack_call {
	uint64_t frame;
	uint32_t probe;
	int32_t call;
	uint32_t jumped; /* 1 more than the probe by which it has jumped, or 0 */
};

struct lbt_earlier_call {
	uint64_t frame;
	uint64_t start;
	uint32_t probe;
	uint32_t tid;
	uint32_t jumped;
};

/* What came before a row among the rows of its lane. */
enum { LBT_FIRST = 0, LBT_AFTER_ENTRY = 1, LBT_AFTER_RETURN = 2, LBT_HIDDEN = 3 };

struct lbt_pair_lane {
	uint64_t goroutine;
	uint32_t pid;
	uint32_t tid;
	uint32_t below; /* calls that are open below the earlier ones that are known here */
	int32_t hooked; /* hits of open calls that a uretprobe hooked */
	uint8_t returned; /* the last event was a return, from last_return */
	uint8_t state; /* of the next row */
	uint64_t last_return;
	uint64_t lost_before; /* returns of calls that began before need a closer look */
	uint64_t lowest, highest; /* frames outside may lie on another stack */
	int32_t first; /* the first row that is shown, or LBT_NO_CALL */
	int32_t since; /* the first of the entries that the last rows are */
	struct lbt_stack_call *calls;
	size_t count;
	size_t kept; /* of those that were open before */
	size_t capacity;
};

/*
 * The events of a fast batch, a row for each call that begins or ends. Where several end at once,
 * each of their rows has the event.
 */
struct lbt_pairing {
	const char *given; /* events, count of them */
	size_t count;
	char *events; /* of the rows */
	size_t rows;
	/* of an entry the call around it, of a return the call that returns */
	int32_t *calls;
	uint32_t *depths;
	uint32_t *blobs; /* where the bytes that accompany an event begin */
	uint8_t *states;
	size_t entries; /* calls that began */
	uint32_t deepest;
	uint32_t blob; /* where the bytes of the next event begin */
	struct lbt_pair_lane *lanes;
	size_t lane_count;
	struct lbt_earlier_call *earlier;
	size_t earlier_count;
	const struct lbt_pair_probe *probes;
	size_t probe_count;
	uint32_t max_depth;
	size_t capacity, lane_capacity, earlier_capacity, slot_count;
	uint32_t *slots; /* a hash table of lanes */
};

/* NULL where there is no memory. probes must outlive the result. */
struct lbt_pairing *lbt_pairing_new(const struct lbt_pair_probe *probes, size_t count,
				    uint32_t max_depth);
void lbt_pairing_free(struct lbt_pairing *pairing);

/*
 * Begins a fast batch of events, struct lbt_event each, perhaps not aligned. Rows have no thread
 * pointers. 0, or -ENOMEM.
 */
int lbt_pairing_begin(struct lbt_pairing *pairing, const void *events, size_t count);

/*
 * Makes a lane known, with its innermost open calls, outermost first. NULL where there is no
 * memory.
 */
struct lbt_pair_lane *lbt_pairing_lane(struct lbt_pairing *pairing, uint32_t pid, uint32_t tid,
				       uint64_t goroutine, const struct lbt_earlier_call *calls,
				       size_t count);

enum { LBT_STOPPED = 0, LBT_LANE_UNKNOWN = 1, LBT_NO_MEMORY = 2 };

/*
 * Pairs events from number *next on, before the time end, and moves *next behind them; says why
 * it goes no further.
 */
int lbt_pair(struct lbt_pairing *pairing, size_t *next, uint64_t end);

#endif
