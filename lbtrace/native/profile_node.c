#include "profile_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LBT_DURATION_BITS 5 /* 32 buckets for each power of two */

static uint32_t lbt_bucket(uint64_t duration)
{
	int shift;

	if (duration < 2 << LBT_DURATION_BITS)
		return duration;
	shift = 63 - __builtin_clzll(duration) - LBT_DURATION_BITS;
	return (shift << LBT_DURATION_BITS) + (duration >> shift);
}

/* The middle of a bucket. */
static uint64_t lbt_middle(uint32_t bucket)
{
	int shift;

	if (bucket < 2 << LBT_DURATION_BITS)
		return bucket;
	shift = (bucket >> LBT_DURATION_BITS) - 1;
	return ((((uint64_t)bucket - (shift << LBT_DURATION_BITS)) << shift) | 1ull << shift >> 1);
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

int lbt_profile_add(struct lbt_profile_node *node, int64_t duration, uint64_t callees, int inside)
{
	const uint64_t took = duration;
	double difference;

	node->calls++;
	if (duration < 0) {
		node->unended += duration != LBT_PASSED;
		node->jumped += duration == LBT_JUMPED;
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

void lbt_profile_clear(struct lbt_profile_node *node)
{
	const struct lbt_profile_node cleared = {
		.context = node->context,
		.function = node->function,
		.buckets = node->buckets,
		.first = node->first,
		.count = node->count,
	};

	if (!node->calls)
		return;
	*node = cleared;
	if (node->buckets)
		memset(node->buckets, 0, node->count * sizeof(*node->buckets));
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
