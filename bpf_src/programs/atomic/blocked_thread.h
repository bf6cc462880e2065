/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * On which stacks threads are blocked, and for how long until they run again, for action stacks:
 * lbtrace/probes/off_cpu.py. The stack is taken as a thread is switched out.
 */
#include "hit.h"
#include "stack/walk.h"

/* How a thread is switched out: S, D, T, t, P, I; not as it is preempted, nor as it ends. */
#define LBT_BLOCKED 0xcf /* TASK_REPORT in include/linux/sched.h, but for X and Z */

struct blocked_thread {
	__u64 since;
	struct stacks_key on;
};

/* By tid in the initial namespace. No memory may be allocated here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct blocked_thread);
	__uint(max_entries, 32768);
} blocked_threads SEC(".maps");

static __noinline int end_blocked(__u32 tid, __u64 now)
{
	struct blocked_thread *thread = bpf_map_lookup_elem(&blocked_threads, &tid);
	struct stacks *found;

	if (!thread)
		return 0;
	if (now - thread->since >= config.off_cpu_bound) {
		found = aggregated(&stacks_map, (const void *)&thread->on, &stacks_zero);
		if (found) {
			ADD(&found->hits, 1);
			ADD(&found->total, now - thread->since);
		}
	}
	bpf_map_delete_elem(&blocked_threads, &tid);
	return 0;
}

static __noinline int begin_blocked(__u32 probe, __u32 tid, __u64 now)
{
	struct pt_regs *user = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct blocked_thread thread = { .since = now, .on.probe = probe };
	struct hit who = {};
	struct stack_walk *walk;
	int error; /* as in actions/stacks.h */

	identify(&who);
	thread.on.pid = who.pid;
	walk = walk_user_stack(user, LBT_STACK_FRAMES, LBT_AMID);
	if (walk) {
		thread.on.stack = walk->hash;
		if (bpf_map_lookup_elem(&blocked_threads, &tid)) /* nor was it seen coming back */
			increment(LBT_SWITCH_MISSED);
		error = bpf_map_update_elem(&met_stacks, &thread.on.stack, walk, BPF_NOEXIST);
		if ((!error || error == -LBT_EEXIST) &&
		    !bpf_map_update_elem(&blocked_threads, &tid, &thread, 0))
			return 0;
	}
	increment(LBT_UNCOUNTED);
	return 0;
}

SEC("?tp")
int thread_switched(struct trace_event_raw_sched_switch *record)
{
	const __u64 now = bpf_ktime_get_ns();
	const __u32 tid = record->prev_pid, probe = LBT_COOKIE_PROBE(cookie_of(record));

	end_blocked(record->next_pid, now);
	if (!(record->prev_state & LBT_BLOCKED) || !is_traced())
		return 0;
	begin_walks(record, 0, 0);
	begin_blocked(probe, tid, now);
	end_walks();
	return 0;
}
