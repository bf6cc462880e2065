/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Whether a hit is below a call of certain functions: of each lane the outermost such call is
 * kept, by its frame. Stacks grow down, so what is below it has a lower frame. A higher one, or
 * a landing there, shows that the call was left by a jump whatever closed it or did not.
 */
#ifndef WITHIN_H
#define WITHIN_H

#include "event.h"
#include "relays.h"
#include "stacks.h"

enum lbt_outer_state {
	LBT_IS_OPEN = 1,
	LBT_IS_AWAITED = 2, /* its return is hooked, or a relay sees it: open until what it jumps to returns */
	LBT_HAS_ENDED = 4, /* more returns of its frame may follow, where it was hooked repeatedly */
};

/* The outermost call on a stack, if there is one. */
struct lbt_outer {
	__u64 frame;
	__u64 state; /* bits of enum lbt_outer_state */
};

struct lbt_outermost {
	__u64 life;	      /* of the thread, as numbers of threads are used again */
	struct lbt_outer own; /* on the lane's own stack, */
	struct lbt_outer alt; /* and on the alternate signal stack, where that interrupts no such call */
};

const struct lbt_outermost no_outermost = {};

/* By lane, only where there is such a call. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct lbt_outermost);
	__uint(max_entries, 65536);
	__uint(map_flags, LBT_NO_PREALLOC);
} outermost SEC(".maps");

/* When the first thread of the current process was born. */
LBT_VISITED_ONCE __u64 leader_born(void)
{
	return bpf_get_current_task_btf()->group_leader->start_boottime;
}

/* A number that another thread, or another program in this one, does not have. */
static __always_inline __u64 life_of(const struct hit *at)
{
	struct task_struct *task;

	if (!config.typed_task) {
		task = (struct task_struct *)bpf_get_current_task();
		if (at->goroutine || at->other)
			task = BPF_CORE_READ(task, group_leader);
		return BPF_CORE_READ(task, start_boottime) ^ BPF_CORE_READ(task, self_exec_id) << 48;
	}
	task = bpf_get_current_task_btf();
	if (at->goroutine || at->other)
		return leader_born() ^ task->self_exec_id << 48;
	return task->start_boottime ^ task->self_exec_id << 48;
}

#define LBT_PAGE_SHIFT 12

/*
 * A stack that is no thread's own has a lane of its own. Threads of Go run their scheduler on a stack
 * whose frames are counted as those of goroutines.
 */
static __always_inline __u64 stack_lane(const struct hit *at, bool scheduler)
{
	const __u64 mask = (1ULL << LBT_LANE_BITS) - 1;

	if (at->other)
		return (__u64)at->pid << LBT_LANE_BITS | (at->other >> LBT_PAGE_SHIFT & mask);
	return lane_of(at) | (scheduler ? 1ULL << (LBT_LANE_BITS - 1) : 0);
}

/* As on_altstack(), also where the kernel's types cannot be read directly (5.10). */
static __always_inline bool interrupts(const struct hit *at)
{
	struct task_struct *task;
	__u64 start;

	if (at->goroutine)
		return false;
	if (config.typed_task)
		return at->bits & LBT_ON_ALTSTACK;
	task = (struct task_struct *)bpf_get_current_task();
	start = BPF_CORE_READ(task, sas_ss_sp);
	return at->stack > start && at->stack - start <= BPF_CORE_READ(task, sas_ss_size);
}

/*
 * Reports that an outermost call, on the alternate stack or not, and what it called, was left;
 * false where there is no room.
 */
static __always_inline bool send_left(const struct hit *at, __u64 frame, __u16 altstack)
{
	struct lbt_event *e;

	if (config.aggregating)
		return true; /* nobody reads it */
	e = bpf_ringbuf_reserve(&ring, LBT_SHORT, 0);
	if (!e)
		return false;
	write_header(e, at);
	e->time = bpf_ktime_get_ns();
	e->frame = frame;
	e->kind = (e->kind & ~(LBT_KIND_MASK | LBT_NAMED)) | LBT_UNWOUND | altstack;
	e->values[0] = 0;
	e->values[1] = 0;
	submit(e);
	return true;
}

static __always_inline void open_outer(struct lbt_outer *outer, const struct hit *at,
				       const struct lbt_spec *spec)
{
	outer->frame = at->frame;
	outer->state = LBT_IS_OPEN;
	if (spec->hooks && !(at->bits & LBT_UNHOOKED))
		outer->state |= LBT_IS_AWAITED;
}

/* Whether a hit on the stack of an outermost call, which may have been left, is outside. */
static __always_inline bool is_above(struct lbt_outer *outer, const struct hit *at,
				     const struct lbt_spec *spec)
{
	const bool outermost = spec->within == LBT_OUTER;
	const bool in_body = at->kind == LBT_POINT || spec->within == LBT_INSIDE;
	const bool ends = outermost || spec->within == LBT_JOINED;

	if (outer->state & LBT_HAS_ENDED) {
		if (ends && at->kind == LBT_CLOSE && at->frame == outer->frame)
			return false;
		outer->state = 0;
	} else if (outer->state) {
		if (at->frame < outer->frame)
			return false;
		if (spec->within == LBT_LANDING) {
			outer->state = 0;
			return false;
		}
		if (at->frame == outer->frame) {
			if (ends && at->kind == LBT_CLOSE)
				outer->state = LBT_HAS_ENDED;
			else if (at->kind == LBT_CLOSE && spec->relay)
				outer->state |= LBT_IS_AWAITED;
			if (ends || in_body || outer->state & LBT_IS_AWAITED)
				return false;
		}
		if (!(outermost && at->kind == LBT_OPEN) && send_left(at, outer->frame, 0))
			outer->state = 0;
	}
	if (!outermost || at->kind != LBT_OPEN)
		return true;
	open_outer(outer, at, spec);
	return false;
}

/* What is known of a hit's lane. NULL: there is no such call, and all is outside that opens none. */
static __always_inline struct lbt_outermost *find_outermost(const struct hit *at,
							    const struct lbt_spec *spec)
{
	__u64 lane = stack_lane(at, config.go && spec->go && !at->goroutine);

	return bpf_map_lookup_elem(&outermost, &lane);
}

/*
 * Whether a hit does not count, as it is not below an outermost call, nor one itself; where there
 * is none, it opens one.
 */
static __noinline bool is_outside(struct hit *at, const struct lbt_spec *spec,
				  struct lbt_outermost *found)
{
	__u64 lane = stack_lane(at, config.go && spec->go && !at->goroutine);
	struct lbt_outer *outer;
	bool outside, interrupting;

	if (!found) {
		/* filled in place: the stack has no room for it */
		bpf_map_update_elem(&outermost, &lane, &no_outermost, 0);
		found = bpf_map_lookup_elem(&outermost, &lane);
		if (!found) {
			ring_full(at);
			return true;
		}
		found->life = life_of(at);
	} else if (found->life != life_of(at)) {
		found->life = life_of(at);
		found->own.state = 0;
		found->alt.state = 0;
	}
	interrupting = interrupts(at);
	if (!interrupting) {
		/* the handler has ended; if such a call has not, siglongjmp has left both */
		if (found->alt.state & LBT_IS_OPEN && config.typed_task)
			send_left(at, found->alt.frame, LBT_ON_ALTSTACK);
		found->alt.state = 0;
	} else if (found->own.state & LBT_IS_OPEN)
		return false;
	outer = interrupting ? &found->alt : &found->own;
	outside = is_above(outer, at, spec);
	if (spec->within == LBT_LANE_END)
		found->own.state = 0;
	if (!found->own.state && !found->alt.state)
		bpf_map_delete_elem(&outermost, &lane);
	return outside;
}

const struct lbt_open_call call_left_out = { .spec = LBT_LEFT_OUT };

/*
 * Remembers of a call that conditions leave out that it is one, where its return could be taken for
 * that of a call at the same frame which another process has made.
 */
static __noinline void remember_left_out(const struct hit *at, const struct lbt_spec *spec)
{
	struct lbt_call_key key = key_of(at, at->entry);
	struct lbt_open_call *call;

	if (!may_be_inherited(at))
		return;
	/* filled in place: the stack has no room for it */
	if (bpf_map_update_elem(&open_calls, &key, &call_left_out, 0)) {
		ring_full(at);
		return;
	}
	call = bpf_map_lookup_elem(&open_calls, &key);
	if (call)
		call->time = life_of(at);
}

#endif
