/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Calls that have jumped to functions which return in their place: where these return, relays send
 * events for such calls only (lbtrace/plan/tail_calls.py).
 */
#ifndef RELAYS_H
#define RELAYS_H

#include "forked_stacks.h"

/* By frame, lane and relay: the probe that opened the call. What exceptions leave is replaced. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct lbt_call_key);
	__type(value, __u32);
	__uint(max_entries, 16384);
} jumped_calls SEC(".maps");

static __always_inline struct lbt_call_key key_of(const struct hit *at, __u64 probe)
{
	return (struct lbt_call_key){
		.frame = at->frame,
		.thread = at->goroutine ? at->goroutine : at->tid,
		.probe = probe,
	};
}

/* What is remembered of the call of a hit. Functions of their own: their caller lacks room. */
static __noinline struct lbt_open_call *find_call(const struct hit *at)
{
	struct lbt_call_key key = key_of(at, at->entry);

	return bpf_map_lookup_elem(&open_calls, &key);
}

static __noinline void forget_call(const struct hit *at)
{
	struct lbt_call_key key = key_of(at, at->entry);

	bpf_map_delete_elem(&open_calls, &key);
}

/* A call jumps; whether there is an event for that. */
static __noinline bool jump_on(const struct hit *at, const struct lbt_spec *spec)
{
	struct lbt_call_key key = key_of(at, at->entry);

	if (spec->filtered && !bpf_map_lookup_elem(&open_calls, &key))
		return spec->jumps == LBT_GOES_ON;
	if (spec->jumps == LBT_UNCOMPARED) {
		bpf_map_delete_elem(&open_calls, &key);
		increment(LBT_TAIL_UNCOMPARED);
		return false;
	}
	key.probe = spec->relay;
	bpf_map_update_elem(&jumped_calls, &key, &at->entry, 0);
	return spec->jumps == LBT_GOES_ON;
}

/* How often relays on trial were hit for no call that has jumped, by probe. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} place_passes SEC(".maps");

/*
 * Whether a call has jumped that returns here, or one of another process may have; the hit is one of
 * its own then.
 */
static __noinline bool has_jumped(struct hit *at, const struct lbt_spec *spec)
{
	struct lbt_call_key key = key_of(at, spec->relay);
	__u32 *entry = bpf_map_lookup_elem(&jumped_calls, &key);

	if (!entry) {
		__u64 *passes = config.learns_places
					? bpf_map_lookup_elem(&place_passes, &at->probe)
					: NULL;

		if (passes)
			ADD(passes, 1);
		return may_be_inherited(at);
	}
	at->entry = *entry;
	bpf_map_delete_elem(&jumped_calls, &key);
	return true;
}

#endif
