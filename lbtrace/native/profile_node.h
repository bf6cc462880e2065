/* What the calls of a function in a context took. */
#ifndef LBT_PROFILE_NODE_H
#define LBT_PROFILE_NODE_H

#include <stddef.h>
#include <stdint.h>

/* How a call has ended, where its duration is not known. */
enum {
	LBT_UNENDED = -1,
	LBT_PASSED = -2,
	LBT_JUMPED = -3, /* to a function whose return is not seen */
};

/* All times are in ns. */
struct lbt_profile_node {
	uint64_t context;
	uint32_t function;
	uint64_t calls;
	uint64_t timed;	   /* calls whose duration is known */
	uint64_t unended;  /* calls whose duration is not known */
	uint64_t jumped;   /* those of them that jumped to where no return is seen */
	uint64_t total;	   /* of calls that are in no other one of the node */
	uint64_t own;	   /* the durations less what traced callees took */
	uint64_t least, most;
	double mean, squares; /* of all durations: Welford's sum of squared differences */
	uint64_t *buckets;
	uint32_t first, count; /* the buckets that there are */
};

/* Adds a call, ``inside`` of another one of the node or not. Returns 0, or -ENOMEM. */
int lbt_profile_add(struct lbt_profile_node *node, int64_t duration, uint64_t callees, int inside);

/* Forgets all calls. */
void lbt_profile_clear(struct lbt_profile_node *node);

/* The duration that a part of the calls does not exceed, within 1.6 %. */
uint64_t lbt_profile_quantile(const struct lbt_profile_node *node, double part);

#endif
