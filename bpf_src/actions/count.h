/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Action count: how often each process, or each key, hits a probe, and sums, the least and the most
 * of values there: lbtrace/tables/count.py. */
#include "aggregate.h"

struct measure {
	__u64 read;  /* hits of which there was a value */
	__u64 low;   /* sum of the low halves of the values */
	__u64 high;  /* and of the high halves, as signed as the values */
	__u64 least; /* what is the least is the most of all complements; both with the sign turned, */
	__u64 most;  /* if there is one, so that zeros are below any */
};

struct count {
	__u64 hits;
	struct measure measures[LBT_MEASURES];
};
AGGREGATES(count, struct count);

#define LBT_TRIES 64 /* each fails only where another thread has raised the number meanwhile */

/*
 * Replaces a number if it is as expected, and returns what it was. Written out, as kernels before
 * 5.12 refuse the instruction wherever it stands: lbtrace/bpf/objects.py takes it away there.
 */
static __always_inline __u64 exchange(__u64 *at, __u64 expected, __u64 number)
{
	asm volatile("r0 = %[expected]\n\t"
		     "r1 = %[at]\n\t"
		     "r2 = %[number]\n\t"
		     "r0 = cmpxchg_64(r1 + 0, r0, r2)\n\t"
		     "%[expected] = r0\n\t"
		     : [expected] "+r"(expected)
		     : [at] "r"(at), [number] "r"(number)
		     : "r0", "r1", "r2", "memory");
	return expected;
}

static __noinline void raise(__u64 *at, __u64 number)
{
	for (int i = 0; i < LBT_TRIES; i++) {
		__u64 before = *(volatile __u64 *)at;

		if (before >= number || exchange(at, before, number) == before)
			return;
	}
	increment(LBT_UNCOUNTED);
}

static __noinline void count(struct lbt_simple_key *key, const struct lbt_spec *spec,
			     const __u64 *values, __u32 faults)
{
	struct count *found = aggregated(&count_map, key, &count_zero);

	if (!found)
		return;
	ADD(&found->hits, 1);
	for (int i = 0; i < LBT_MEASURES; i++) {
		struct measure *measure = &found->measures[i];
		const __u64 sign = has_sign(spec, i) << 63;
		__u64 value, turned;

		if (i >= config.measures)
			break;
		if (!measure_value(key, spec, values, faults, i, &value))
			continue;
		turned = value ^ sign;
		ADD(&measure->read, 1);
		ADD(&measure->low, (__u32)value);
		ADD(&measure->high, high_half(value, has_sign(spec, i)));
		if (config.extremes) {
			raise(&measure->least, ~turned);
			raise(&measure->most, turned);
		}
	}
}
