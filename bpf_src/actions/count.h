/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Action count: how often each process hits a probe. */
#include "aggregate.h"

struct count {
	__u64 hits;
};
AGGREGATES(count, struct lbt_aggregate_key, struct count);

static __noinline void count(const struct hit *at, const struct lbt_spec *spec,
			     const __u64 *values, __u32 faults)
{
	struct lbt_aggregate_key key = { .probe = at->probe, .pid = at->pid };
	struct count *found = aggregated(&count_map, &key, &count_zero);

	if (found)
		ADD(&found->hits, 1);
}
