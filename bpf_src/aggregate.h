/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* What the actions that aggregate in the kernel share. */
#ifndef AGGREGATE_H
#define AGGREGATE_H

#include "fetch.h"

/*
 * The map NAME_map, where action NAME aggregates: on each CPU a value by key. The key is a
 * struct lbt_aggregate_key, or begins with one. The value is words of 64 bits, of which the first
 * says how many hits it is made of. User space sizes it when it is loaded.
 */
#define AGGREGATES(name, key_type, value_type)                                                     \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_HASH);                                            \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
		__uint(max_entries, 1);                                                            \
	} name##_map SEC(".maps");                                                                 \
	const value_type name##_zero = {}

/*
 * What this CPU has aggregated at a key, zeros at first. NULL where there is no room, which is
 * counted.
 *
 * The program of a uprobe may be preempted and continue on another CPU: what it finds here is
 * changed by ADD, never read and written back.
 */
static __always_inline void *aggregated(void *map, const void *key, const void *zero)
{
	void *found = bpf_map_lookup_elem(map, key);

	if (!found) {
		/* another thread may have added it first */
		bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
		found = bpf_map_lookup_elem(map, key);
	}
	if (!found)
		increment(LBT_UNCOUNTED);
	return found;
}

/* The value that an action takes. Bit spec->aggregates of the faults says that it is none. */
static __always_inline __u64 value_of(const struct lbt_spec *spec, const __u64 *values)
{
	return select_slot(values, spec->aggregates);
}

#endif
