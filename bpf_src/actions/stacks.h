/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Action stacks: how often a probe is hit on each user stack, by process, and what a value amounts to
 * there: lbtrace/tables/stacks.py.
 */
#include "aggregate.h"
#ifndef LBT_EARLY
#include "stack/walk.h"
#endif

struct stacks_key {
	__u32 probe;
	__u32 pid;
	__u64 stack; /* its hash */
};

struct stacks {
	__u64 hits;
	__u64 total;
	__u64 unread; /* hits whose value could not be read */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, struct stacks_key);
	__type(value, struct stacks);
	__uint(max_entries, 1);
} stacks_map SEC(".maps");
const struct stacks stacks_zero = {};

/* The stacks that were met, by their hash, once each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct lbt_stack);
	__uint(max_entries, 1);
	__uint(map_flags, LBT_NO_PREALLOC);
} met_stacks SEC(".maps");

#define LBT_EEXIST 17

#ifdef LBT_EARLY /* user space asks for no stacks there */

static __always_inline void walk_for_stacks(struct pt_regs *ctx, const struct hit *at,
					    const struct lbt_spec *spec, bool popped)
{
}

static __always_inline struct lbt_stack *walked(void)
{
	return NULL;
}

#else

/* Walks the stack at a hit, before the action: from there it would lie too deep in calls. */
static __noinline int walk_for_stacks(struct pt_regs *ctx, const struct hit *at,
				      const struct lbt_spec *spec, bool popped)
{
	walk_user_stack(ctx, LBT_STACK_FRAMES, stack_place(at, spec, popped));
	return 0;
}

static __always_inline struct lbt_stack *walked(void)
{
	return (struct lbt_stack *)find_walk();
}

#endif

static __noinline void stacks(struct lbt_simple_key *by, const struct lbt_spec *spec,
			      const __u64 *values, __u32 faults)
{
	struct stacks_key key = { .probe = by->probe, .pid = by->pid };
	struct lbt_stack *stack = walked();
	struct stacks *found;
	__u64 value;
	int error; /* before 6.4 the upper half is not that of a negative number */

	if (!stack) {
		increment(LBT_UNCOUNTED);
		return;
	}
	key.stack = stack->hash;
	found = bpf_map_lookup_elem(&stacks_map, &key);
	if (!found) {
		error = bpf_map_update_elem(&met_stacks, &key.stack, stack, BPF_NOEXIST);
		if (error && error != -LBT_EEXIST) {
			increment(LBT_UNCOUNTED);
			return;
		}
		found = aggregated(&stacks_map, (const void *)&key, &stacks_zero);
	}
	if (!found)
		return;
	ADD(&found->hits, 1);
	if (!config.measures)
		return;
	if (measure_value(by, spec, values, faults, 0, &value))
		ADD(&found->total, value);
	else
		ADD(&found->unread, 1);
}
