/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Action histogram: how a value is distributed, by key: lbtrace/tables/histogram.py. */
#include "aggregate.h"

struct histogram {
	__u64 hits;
	__u64 total;
	__u64 more; /* of durations: what timed calls inside of these took; of other values, which may
		     * be large: the sum of their high halves, as signed as they are */
};
AGGREGATES(histogram, struct histogram);

/* The position of the highest bit; without a branch, from which the verifier would learn it. */
static __always_inline __u32 highest_bit(__u64 number)
{
	__u32 found = 0;

#define HALVE(bits)                                                                                \
	do {                                                                                       \
		__u64 sign = -(number >> (1 << bits));                                             \
		__u32 shift;                                                                       \
		barrier_var(sign);                                                                 \
		shift = (sign >> 63) << bits;                                                      \
		number >>= shift;                                                                  \
		found += shift;                                                                    \
	} while (0)
	HALVE(5);
	HALVE(4);
	HALVE(3);
	HALVE(2);
	HALVE(1);
	HALVE(0);
#undef HALVE
	return found;
}

static __always_inline __s32 bucket_of(__u64 value, __u64 has_sign)
{
	const __u64 sign = -(value >> 63 & has_sign); /* all bits of a negative number */
	const __u64 number = value ^ sign;
	const __u32 shift = highest_bit(number | 1ULL << LBT_BUCKET_BITS) - LBT_BUCKET_BITS;
	const __u32 bucket = (shift << LBT_BUCKET_BITS) + (number >> shift);

	return bucket ^ (__u32)sign;
}

static __noinline void histogram(struct lbt_simple_key *key, const struct lbt_spec *spec,
				 const __u64 *values, __u32 faults)
{
	struct histogram *found;
	__u64 value, more;

	if (measure_value(key, spec, values, faults, 0, &value))
		key->bucket = bucket_of(value, has_sign(spec, 0));
	else
		key->bucket = LBT_NO_BUCKET;
	more = config.times_inner ? values[LBT_SLOT_INNER] : high_half(value, has_sign(spec, 0));
	found = aggregated(&histogram_map, key, &histogram_zero);
	if (!found)
		return;
	ADD(&found->hits, 1);
	ADD(&found->total, value);
	if (more)
		ADD(&found->more, more);
}
