/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* How long calls take themselves, without the calls below them that are timed as well. */
#ifndef NESTING_H
#define NESTING_H

#include "relays.h"

#define LBT_NESTING_LEFT 8 /* calls that were left before another one begins there, at most */

/* What runs calls: a thread or goroutine, and the stack where that is not its own. */
struct lbt_nesting_lane {
	__u64 thread;
	__u64 stack;
};

/* The innermost call that is timed, by its frame, as far as is known; 0: none. */
struct lbt_innermost {
	__u64 frame;
	__u64 probe;
	__u64 jumped; /* what is called there next returns in its place */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lbt_nesting_lane);
	__type(value, struct lbt_innermost);
	__uint(max_entries, 1); /* user space sizes it where it is needed */
} innermost_calls SEC(".maps");

/* By process: calls of which it is not known inside of which one they are. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} unsure_calls SEC(".maps");

const struct lbt_innermost no_innermost = {};
const __u64 no_unsure = 0;

static __always_inline struct lbt_innermost *innermost_of(const struct hit *at)
{
	struct lbt_nesting_lane lane = {
		.thread = lane_of(at),
		.stack = at->bits & LBT_ON_ALTSTACK ? 1 : at->other,
	};

	return bpf_map_lookup_elem(&innermost_calls, &lane);
}

static __noinline void forget_lane(const struct hit *at)
{
	struct lbt_nesting_lane lane = { .thread = lane_of(at), .stack = at->other };

	bpf_map_delete_elem(&innermost_calls, &lane);
}

/* Calls that were left have no time of their own: what those inside of them took is that of others. */
static __noinline void pass_on(struct lbt_call_key *around, __u64 inner)
{
	struct lbt_open_call *call = bpf_map_lookup_elem(&open_calls, around);

	if (call)
		call->inner += inner;
}

/*
 * A call will be remembered, or returns: passes by those that were left before, so that what
 * innermost_calls has is around it, or is it.
 */
static __noinline void pass_left(const struct hit *at, bool opens)
{
	struct lbt_innermost *innermost = innermost_of(at);
	struct lbt_call_key key = key_of(at, 0);

	if (!innermost)
		return;
	for (int i = 0; i < LBT_NESTING_LEFT; i++) {
		struct lbt_open_call *left;
		__u64 inner;

		/* Go's frames are negative distances, which sort as well */
		if (!innermost->frame || innermost->frame > at->frame)
			return;
		if (innermost->frame == at->frame && (!opens || innermost->jumped))
			return;
		if (innermost->frame == at->frame && config.hooked && innermost->probe != at->entry)
			break; /* it may have jumped here, and will return as well */
		key.frame = innermost->frame;
		key.probe = innermost->probe;
		left = bpf_map_lookup_elem(&open_calls, &key);
		if (!left)
			break;
		inner = left->inner;
		innermost->frame = key.frame = left->around_frame;
		innermost->probe = key.probe = left->around_probe;
		innermost->jumped = 0;
		pass_on(&key, inner);
	}
	innermost->frame = LBT_UNKNOWN_AROUND;
}

/* The same call has been remembered. */
static __noinline void enter_call(const struct hit *at)
{
	struct lbt_innermost *innermost = innermost_of(at);
	struct lbt_call_key key = key_of(at, at->entry);
	struct lbt_open_call *call = bpf_map_lookup_elem(&open_calls, &key);

	if (!call)
		return;
	if (!innermost) {
		struct lbt_nesting_lane lane = {
			.thread = lane_of(at),
			.stack = at->bits & LBT_ON_ALTSTACK ? 1 : at->other,
		};

		bpf_map_update_elem(&innermost_calls, &lane, &no_innermost, BPF_NOEXIST);
		innermost = bpf_map_lookup_elem(&innermost_calls, &lane);
		if (!innermost) {
			call->around_frame = LBT_UNKNOWN_AROUND;
			return;
		}
	}
	call->around_frame = innermost->frame;
	call->around_probe = innermost->probe;
	innermost->frame = at->frame;
	innermost->probe = at->entry;
	innermost->jumped = 0;
}

static __noinline void note_unsure(const struct hit *at)
{
	__u64 *calls = bpf_map_lookup_elem(&unsure_calls, &at->pid);

	if (!calls) {
		bpf_map_update_elem(&unsure_calls, &at->pid, &no_unsure, BPF_NOEXIST);
		calls = bpf_map_lookup_elem(&unsure_calls, &at->pid);
	}
	if (calls)
		ADD(calls, 1);
	else
		increment(LBT_UNCOUNTED);
}

/*
 * The innermost call, which the one that `around` is the key of has jumped to, returns with that one,
 * but the kernel comes to its probe last: takes it from between the two. Returns how long it took, 0
 * where it is another call.
 */
static __noinline __u64 take_from_between(const struct hit *at, const struct lbt_innermost *innermost,
					  const struct lbt_open_call *around)
{
	struct lbt_call_key key = key_of(at, innermost->probe), outer = key_of(at, around->around_probe);
	struct lbt_open_call *call = bpf_map_lookup_elem(&open_calls, &key), *outermost;
	__u64 took;

	if (!call || innermost->frame != at->frame || call->around_frame != at->frame ||
	    call->around_probe != at->entry || config.filtered)
		return 0;
	took = at->time - call->time;
	call->around_frame = outer.frame = around->around_frame;
	call->around_probe = around->around_probe;
	outermost = bpf_map_lookup_elem(&open_calls, &outer);
	if (outermost)
		outermost->inner -= took; /* it will be added, and the other call's time holds it */
	return took;
}

/*
 * It returns, and counts or not: conditions may leave it out. Returns how long the timed calls inside
 * of it took.
 */
static __noinline __u64 leave_call(const struct hit *at, bool counts)
{
	struct lbt_innermost *innermost = innermost_of(at);
	struct lbt_call_key key = key_of(at, at->entry);
	struct lbt_open_call *call = bpf_map_lookup_elem(&open_calls, &key), *around;
	__u64 took, inner, frame, between = 0;
	bool unsure;

	if (!call)
		return 0;
	took = at->time - call->time;
	frame = call->around_frame;
	unsure = !innermost || frame == LBT_UNKNOWN_AROUND;
	if (innermost && (innermost->frame != at->frame || innermost->probe != at->entry)) {
		between = take_from_between(at, innermost, call);
		unsure |= !between;
	}
	inner = call->inner + between;
	unsure |= inner > took;
	if (innermost && !between) {
		innermost->frame = frame == LBT_UNKNOWN_AROUND ? 0 : frame;
		innermost->probe = call->around_probe;
		innermost->jumped = 0;
	}
	if (!frame && at->goroutine)
		forget_lane(at); /* there are many, each short */
	if (frame && frame != LBT_UNKNOWN_AROUND) {
		key.frame = frame;
		key.probe = call->around_probe;
		around = bpf_map_lookup_elem(&open_calls, &key);
		if (around)
			around->inner += counts ? took : inner;
		else
			unsure = true;
	}
	if (!config.times_inner || !unsure)
		return inner;
	note_unsure(at);
	return 0;
}

/* A call jumps to what returns in its place: where nothing sees that return, it is over. */
static __noinline void jump_from(const struct hit *at, bool is_over)
{
	struct lbt_innermost *innermost;

	pass_left(at, false);
	if (is_over) {
		leave_call(at, false);
		return;
	}
	innermost = innermost_of(at);
	if (innermost && innermost->frame == at->frame && innermost->probe == at->entry)
		innermost->jumped = 1;
}

/* A call begins, if conditions let it, or one that is remembered returns: as `leave_call`. */
static __always_inline __u64 nest(const struct hit *at, const struct lbt_open_call *call, bool counts)
{
	if (!config.nesting || !(call || (counts && at->kind == LBT_OPEN)))
		return 0;
	pass_left(at, at->kind == LBT_OPEN);
	return call ? leave_call(at, counts) : 0;
}

#endif
