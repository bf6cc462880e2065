/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Programs of tracepoints that miss nothing while others are preempted in them.
 *
 * The kernel skips such a program, and counts that, while it runs already on the same CPU
 * (__bpf_trace_run() in kernel/trace/bpf_trace.c, bpf_prog_get_recursion_context() in
 * include/linux/bpf.h). From 7.0 on a task may be preempted in it: tracepoints are guarded by SRCU
 * and no longer disable preemption (__DECLARE_TRACE() in include/linux/tracepoint.h), and BPF
 * disables migration only. What other tasks do there meanwhile would be missed.
 *
 * So the same program is attached again, as its backup programs, which the kernel calls after it,
 * in that order (func_add() in kernel/tracepoint.c), each unless it is busy. The first that runs
 * handles what has happened, and the later ones find that it is done.
 */
#ifndef BACKUP_PROGRAMS_H
#define BACKUP_PROGRAMS_H

#include "state.h"

enum lbt_tracepoint {
	LBT_FORKED,
	LBT_INHERITED,
	LBT_CONTINUED,
	LBT_EXECUTED,
	LBT_INTERRUPTED,
	LBT_TRACEPOINTS = 8,
};

#define LBT_OCCASIONS 1024 /* of threads, by the last bits of their numbers */

/* What has happened, so that it happens once only, and which of the programs has handled it. */
struct lbt_occasion {
	__u64 life;	/* when a process or thread began */
	__u64 what;
	__u64 switches; /* how often the thread was switched out before, or 0 */
	__u64 by;	/* 0: the program, then its backup programs */
};

/* The last occasion of a thread, only where programs have backup programs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct lbt_occasion);
	__uint(max_entries, LBT_TRACEPOINTS * LBT_OCCASIONS);
} handled SEC(".maps");

/*
 * Whether a program before this one has handled what happens now; else this one is to. It may do so
 * a second time where two threads share an entry, or one is switched out between two programs:
 * that must do no harm.
 *
 * What is the same again later in a thread's life differs by ``switches``. A program whose note of
 * the time before is still there was skipped this time: it is busy, as another thread has come to
 * it on this CPU since, for which this one was switched out.
 */
static __noinline bool is_handled(__u32 tracepoint, __u64 life, __u64 what, __u64 switches, __u32 by)
{
	__u32 entry = tracepoint * LBT_OCCASIONS | (bpf_get_current_pid_tgid() % LBT_OCCASIONS);
	struct lbt_occasion *last = bpf_map_lookup_elem(&handled, &entry);
	bool same;

	if (!last)
		return false;
	same = last->life == life && last->what == what && last->by < by;
	if (same && last->switches == switches)
		return true;
	last->life = life;
	last->what = what;
	last->switches = switches;
	last->by = by;
	if (by && !same) /* or switched out on the way: not known to have been missed */
		increment(LBT_BY_BACKUP);
	return false;
}

/* The same of a fork. */
static __always_inline bool is_handled_fork(__u32 tracepoint, struct task_struct *child, __u32 by)
{
	return config.backups && is_handled(tracepoint, BPF_CORE_READ(child, start_boottime),
					   BPF_CORE_READ(child, pid), 0, by);
}

#define TRACEPOINT_PROGRAM(point, name, suffix, number)                                            \
	SEC("?raw_tp/" #point)                                                                     \
	int name##suffix(__u64 *args)                                                              \
	{                                                                                          \
		return name##_by(args, number);                                                    \
	}

/* Begins a function of ``args`` and ``by``: a program and LBT_BACKUP_PROGRAMS backup programs. */
#define WITH_BACKUPS(point, name)                                                                  \
	static __noinline int name##_by(__u64 *args, __u32 by);                                    \
	TRACEPOINT_PROGRAM(point, name, , 0)                                                       \
	TRACEPOINT_PROGRAM(point, name, _1, 1)                                                     \
	TRACEPOINT_PROGRAM(point, name, _2, 2)                                                     \
	TRACEPOINT_PROGRAM(point, name, _3, 3)                                                     \
	static __noinline int name##_by(__u64 *args, __u32 by)

#endif
