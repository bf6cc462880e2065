/*
 * Adds up the durations of calls: one node for each function and context, as lbtrace/answers
 * shows them.
 */
#ifndef LBT_PROFILE_H
#define LBT_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "pairing.h"
#include "profile_node.h"

/* What a context is: a row of the table is a function in one. */
enum {
	LBT_BY_FUNCTION = 0, /* nothing: 0 */
	LBT_BY_THREAD = 1,   /* the process in the upper half, the thread in the lower */
	LBT_BY_CALLER = 2,   /* 1 more than the function around it, or 0 */
	LBT_BY_PATH = 3,     /* 1 more than the node around it, or 0 */
	LBT_BY_GIVEN = 4,    /* what the caller of this says */
};

struct lbt_profile {
	struct lbt_profile_node *nodes; /* number 0 takes what has no room */
	size_t node_count, node_capacity, most_nodes;
	uint32_t *node_slots;
	size_t node_slot_count;
	struct lbt_profile_lane **lanes; /* a hash table of lists, of those that have open calls */
	struct lbt_profile_lane *spare;	 /* the others */
	uint32_t *functions; /* by probe */
	size_t function_count;
	int by;
};

/* A call, its thread or goroutine, and what is around it. */
struct lbt_profile_call {
	uint64_t lane;
	uint64_t context;
	uint32_t pid, tid;
	uint32_t depth;
	uint32_t function;
	uint8_t is_goroutine;
	uint8_t is_uncounted; /* one that a forked process continues */
};

/* NULL where there is no memory. */
struct lbt_profile *lbt_profile_new(int by, size_t most_nodes);
void lbt_profile_free(struct lbt_profile *profile);

/* Forgets what calls took that have ended; those that are open stay so. What has no room is kept. */
void lbt_profile_restart(struct lbt_profile *profile);

/* The functions of the probes by number. All that follow return 0, or -ENOMEM. */
int lbt_profile_learn(struct lbt_profile *profile, const uint32_t *functions, size_t count);

/* A call begins, and ends after so many ns. */
int lbt_profile_enter(struct lbt_profile *profile, const struct lbt_profile_call *call);
int lbt_profile_exit(struct lbt_profile *profile, const struct lbt_profile_call *call,
		     int64_t duration);

/* A call that is on no stack, or a point. */
int lbt_profile_count(struct lbt_profile *profile, const struct lbt_profile_call *call,
		      int64_t duration);

/* The rows of a fast batch. */
int lbt_profile_batch(struct lbt_profile *profile, const struct lbt_pairing *pairing);

#endif
