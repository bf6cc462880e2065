/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Processes that may continue calls of those that have forked them. */
#ifndef FORKED_STACKS_H
#define FORKED_STACKS_H

#include "registers.h"
#include "state.h"

/*
 * Which frames may be of calls that a process has not made itself: those from ``pointer`` on, where
 * it was forked, and all below ``bottom``, which may be on other stacks that its parent had calls on
 * (fibers, a handler's). ``top`` is near the top of what is its first thread's own stack now.
 */
struct lbt_forked_stack {
	__u64 pointer;
	__u64 bottom;
	__u64 top;
};

/*
 * By tgid in the initial namespace. A stale entry costs an event for a fork, and for returns that are
 * left out otherwise.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, struct lbt_forked_stack);
	__uint(max_entries, 4096);
} forked_stacks SEC(".maps");

__u64 any_forked_stacks = 0; /* there have been none while this is 0 */

/*
 * Below the start of a process's first stack at least this is that stack's alone: the kernel begins
 * to map files 128 MiB below (MIN_GAP in mm/util.c and arch/x86/mm/mmap.c).
 */
#define LBT_FIRST_STACK (8 << 20)

/*
 * Near the top of the current thread's own stack: C libraries keep the thread control block there,
 * the kernel what it passes to the program. A process's first thread continues on the stack of the
 * one that forked it.
 */
static __always_inline __u64 stack_top(bool leads)
{
	__u64 top = leads ? first_top() : thread_pointer();
	struct lbt_forked_stack *forked;
	__u32 tgid;

	barrier_var(top); /* or the compiler may merge loads by pointers of two kinds */
	if (!leads || !any_forked_stacks)
		return top;
	tgid = bpf_get_current_pid_tgid() >> 32;
	forked = bpf_map_lookup_elem(&forked_stacks, &tgid);
	return forked ? forked->top : top;
}

/* What a process may continue that ``parent`` forks where its stack pointer is ``pointer``. */
static __always_inline struct lbt_forked_stack forked_stack_of(struct task_struct *parent, __u64 pointer,
					       bool leads)
{
	const __u64 bottom = BPF_CORE_READ(parent, mm, start_stack) - LBT_FIRST_STACK;
	const bool first = pointer - bottom <= LBT_FIRST_STACK;

	return (struct lbt_forked_stack){
		.pointer = pointer,
		.bottom = first ? bottom : pointer,
		.top = stack_top(leads),
	};
}

/* Whether the frame of a hit may be that of a call which another process has made. */
static __noinline bool may_be_inherited(const struct hit *at)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	const __u64 frame = at->frame + LBT_RETURN_SLOT;
	struct lbt_forked_stack *forked;

	if (!any_forked_stacks)
		return false;
	forked = bpf_map_lookup_elem(&forked_stacks, &tgid);
	return forked && (frame >= forked->pointer || frame < forked->bottom);
}

#endif
