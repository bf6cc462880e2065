/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * How long threads do not run: blocked, or runnable while others have the processors. Of each that is
 * hit, this is added up from its first hit on. An event that says how much it is by then precedes
 * those of the thread's hits, where it has changed: of two hits, the difference is what lies between.
 */
#ifndef OFF_CPU_H
#define OFF_CPU_H

#include "event.h"

struct lbt_thread_time {
	struct lbt_off_cpu sum;
	struct lbt_off_cpu reported;
	__u64 left;	/* when it was switched out; 0: it runs */
	__u64 woken;	/* since when it has been runnable meanwhile; 0: it is blocked */
	__u64 resumed;	/* when it ran again the last time */
	__u64 frame;	/* where it is blocked, as of a hit */
	__u64 lane;
	__u32 pid;
	__u32 tid;
	__u32 state;
	__s32 call;	/* the system call in which it is blocked */
	__u32 bits;	/* besides the kind of an event */
	__u32 pad;
};

/*
 * By tid in the initial namespace, until the thread ends. All memory is there from the start: where
 * threads are switched, none may be allocated.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct lbt_thread_time);
	__uint(max_entries, 32768);
} thread_times SEC(".maps");

#define LBT_NOT_KNOWN (~0ULL)

/*
 * Each switch that was missed adds this to what is added up: 2.3 years. What lies between two hits
 * is not known if it comes to as much (lbtrace/calls/off_cpu.py). Kernels in virtual machines have
 * left out one in hundreds of those from a processor that was idle.
 */
#define LBT_MISSED_SWITCH (1ULL << 56)

static __always_inline void miss_switch(struct lbt_thread_time *known)
{
	known->left = 0;
	known->sum.blocked += LBT_MISSED_SWITCH;
	increment(LBT_SWITCH_MISSED);
}

/* Programs may be preempted: read where this stands, not once for all. */
#define NOW(field) (*(const volatile __u64 *)&(field))

/* A new thread is reported at once: another one may have had its number. */
const struct lbt_thread_time no_time = { .reported = { LBT_NOT_KNOWN, LBT_NOT_KNOWN } };

/* That of the current thread, which is hit, NULL: there is no room. */
static __always_inline struct lbt_thread_time *time_of_thread(const struct hit *at)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct lbt_thread_time *known = bpf_map_lookup_elem(&thread_times, &tid);

	if (!known) {
		bpf_map_update_elem(&thread_times, &tid, &no_time, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&thread_times, &tid);
		if (!known)
			return NULL;
		known->pid = at->pid;
		known->tid = at->tid;
	}
	if (known->left) /* it runs, but was not seen coming back */
		miss_switch(known);
	return known;
}

/*
 * What it amounts to at the time of a hit, which becomes later if the thread has been switched out
 * since it was taken.
 */
static __always_inline struct lbt_off_cpu off_cpu_at(const struct lbt_thread_time *known, __u64 *time)
{
	struct lbt_off_cpu sum = { LBT_NOT_KNOWN, LBT_NOT_KNOWN };
	__u64 resumed;

	if (!known)
		return sum;
	resumed = NOW(known->resumed);
	sum = known->sum;
	if (NOW(known->resumed) != resumed)
		sum = known->sum;
	if (NOW(known->resumed) > *time)
		*time = bpf_ktime_get_ns();
	return sum;
}

/* Reports what it is at a hit; false where there is no room. */
static __noinline bool report_off_cpu(struct hit *at)
{
	struct lbt_thread_time *known = time_of_thread(at);
	struct lbt_off_cpu sum = off_cpu_at(known, &at->time);
	struct lbt_event *e;

	if (known && known->reported.blocked == sum.blocked &&
	    known->reported.runnable == sum.runnable)
		return true;
	e = bpf_ringbuf_reserve(&ring, LBT_SHORT, 0);
	if (!e)
		return false;
	write_header(e, at);
	e->kind = (e->kind & ~(LBT_KIND_MASK | LBT_NAMED)) | LBT_OFF_CPU;
	__builtin_memcpy(e->values, &sum, sizeof(sum));
	if (known)
		known->reported = sum;
	submit(e);
	return true;
}

/* Keeps for a call that is entered how long its thread has not run, which has been reported. */
static __noinline void keep_off_cpu(const struct hit *at, struct lbt_open_call *call)
{
	struct lbt_thread_time *known = time_of_thread(at);

	call->off_cpu.blocked = call->off_cpu.runnable = LBT_NOT_KNOWN;
	if (known)
		call->off_cpu = known->reported;
}

/*
 * Makes of that, as the call returns, how long it has not run; false where that is not known: a
 * goroutine, or a stack that the program made, may go on in another thread.
 */
static __noinline bool spend_off_cpu(struct hit *at, struct lbt_open_call *call)
{
	struct lbt_off_cpu sum;

	if (!call || at->goroutine || at->other)
		return false;
	sum = off_cpu_at(time_of_thread(at), &at->time);
	if (sum.blocked == LBT_NOT_KNOWN || call->off_cpu.blocked == LBT_NOT_KNOWN)
		return false;
	call->off_cpu.blocked = sum.blocked - call->off_cpu.blocked;
	call->off_cpu.runnable = sum.runnable - call->off_cpu.runnable;
	return call->off_cpu.blocked < LBT_MISSED_SWITCH;
}

#endif
