/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * System calls that seccomp refuses (ERRNO, TRAP): the kernel asks it before it comes to the tracepoint at
 * which calls begin (syscall_trace_enter() in kernel/entry/common.c), and comes to that at which they end.
 */
#ifndef REFUSED_CALLS_H
#define REFUSED_CALLS_H

#include "registers.h"

enum {
	LBT_IS_OUT = 1, /* of calls */
	LBT_IS_IN,
	LBT_IS_REFUSED, /* the call is shown as it ends */
	LBT_IS_TRAPPED, /* the same where it has no result: the thread gets a signal instead */
};

/* Where threads are that seccomp confines, as far as it has been seen. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32); /* tid in the initial namespace */
	__type(value, __u32);
	__uint(max_entries, 16384);
} confined SEC(".maps");

static __always_inline bool is_confined(const struct task_struct *task)
{
	return LBT_RESULT_APART && bpf_core_field_exists(task->seccomp.mode) && task->seccomp.mode;
}

/* Such a thread enters a call that ends. Returns where it was before. */
static __noinline __u32 enter(void)
{
	__u32 before = LBT_IS_OUT, now = LBT_IS_IN, tid = bpf_get_current_pid_tgid();
	__u32 *known;

	known = bpf_map_lookup_elem(&confined, &tid);
	if (known) {
		before = *known;
		*known = before == LBT_IS_TRAPPED ? LBT_IS_OUT : LBT_IS_IN;
	} else {
		bpf_map_update_elem(&confined, &tid, &now, 0);
	}
	return before;
}

/*
 * Such a thread leaves a call, which may have probes. Returns whether it was refused, and is to be entered
 * first. Of the first call that is seen to end it is not known: it may have begun before the trace, or
 * before seccomp confined the thread. What a call begins, a thread or a program, has not entered that.
 */
static __noinline bool leave(__u64 number, __u64 result, bool probed, bool executed)
{
	const bool begins = executed || (LBT_BEGINS(number) && !result);
	__u32 now = LBT_IS_OUT, tid = bpf_get_current_pid_tgid();
	__u32 *known;

	known = bpf_map_lookup_elem(&confined, &tid);
	if (known && *known == LBT_IS_OUT && probed && !begins)
		now = result == number ? LBT_IS_TRAPPED : LBT_IS_REFUSED;
	if (known)
		*known = now;
	else
		bpf_map_update_elem(&confined, &tid, &now, 0);
	return now != LBT_IS_OUT;
}

#endif
