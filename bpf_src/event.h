/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Who is traced, and the events of plain probes. */
#ifndef EVENT_H
#define EVENT_H

#include "state.h"

#define LBT_PID_LEVELS 33 /* MAX_PID_NS_LEVEL and the initial one, include/linux/pid_namespace.h */

/* The number of a pid in one of its namespaces. */
static __always_inline struct upid *number_at(struct pid *pid, __u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

/* Numbers of a process in a namespace inside the reader's; false where it is outside. */
static __noinline bool number_nested(struct place *who)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct pid *thread = BPF_CORE_READ(task, thread_pid);
	struct pid *process = BPF_CORE_READ(task, group_leader, thread_pid);
	__u32 level = BPF_CORE_READ(thread, level);

	for (__u32 i = 0; i < LBT_PID_LEVELS; i++) {
		struct upid *of_thread = number_at(thread, i), *of_process = number_at(process, i);

		if (i > level)
			break;
		if (BPF_CORE_READ(of_thread, ns, ns.inum) != config.pidns_inode)
			continue;
		who->tid = BPF_CORE_READ(of_thread, nr);
		who->pid = BPF_CORE_READ(of_process, nr);
		of_thread = number_at(thread, level);
		who->inside = BPF_CORE_READ(of_thread, nr);
		return true;
	}
	return false;
}

/* False for a process that is not traced. */
static __always_inline bool identify(struct place *who)
{
	__u32 tgid;

	if (config.typed_task) {
		struct task_struct *task = bpf_get_current_task_btf();

		who->pid = task->tgid;
		who->tid = task->pid;
	} else {
		__u64 ids = bpf_get_current_pid_tgid();

		who->pid = ids >> 32;
		who->tid = ids;
	}
	tgid = who->pid;
	if (config.pidns_inode) {
		struct bpf_pidns_info ns;

		if (!bpf_get_ns_current_pid_tgid(config.pidns_device, config.pidns_inode, &ns, sizeof(ns))) {
			who->pid = ns.tgid;
			who->tid = ns.pid;
		} else if (!number_nested(who)) {
			return false;
		}
	}
	if (!config.root || who->pid == config.root)
		return true;
	return config.follow && bpf_map_lookup_elem(&followed, &tgid);
}

/* The number of the current thread in the innermost of its namespaces, 0 in the initial one. */
static __noinline __u32 number_inside(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid *innermost = number_at(pid, level);

	return level ? BPF_CORE_READ(innermost, nr) : 0;
}

/*
 * The same, if that is not the reader's namespace. Where the reader's is not the initial
 * one, identify() has found out.
 */
static __always_inline void look_inside(struct place *who)
{
	if (config.pidns_inode)
		return;
	if (!config.typed_task || bpf_get_current_task_btf()->thread_pid->level)
		who->inside = number_inside();
}

/* Reading the task costs a tenth of asking a helper. */
static __always_inline void tell(struct lbt_runner *who, const struct place *at)
{
	__u64 born, programs;

	if (config.typed_task) {
		struct task_struct *task = bpf_get_current_task_btf();

		__builtin_memcpy(who->comm, task->comm, LBT_COMM);
		born = task->start_boottime;
		programs = task->self_exec_id;
	} else {
		struct task_struct *task = (struct task_struct *)bpf_get_current_task();

		bpf_get_current_comm(who->comm, LBT_COMM);
		born = BPF_CORE_READ(task, start_boottime);
		programs = BPF_CORE_READ(task, self_exec_id);
	}
	who->born = born >> 10; /* comes again in 73 minutes, to the microsecond */
	who->inside = at->inside | (__u32)programs << LBT_INSIDE_BITS;
}

static __always_inline void head(struct lbt_event *e, const struct place *at)
{
	e->time = at->time;
	e->frame = at->frame;
	e->goroutine = at->goroutine;
	e->probe = at->probe;
	e->pid = at->pid;
	e->tid = at->tid;
	e->kind = at->kind;
	e->faults = 0;
	e->lost = any_lost ? take_losses(at) : 0;
	e->blob = 0;
}

/*
 * A wake-up costs more than all the rest of an event: the reader polls, and is
 * woken only when the ring fills, by those that cross the mark.
 */
static __always_inline void submit(struct lbt_event *e)
{
	__u64 ahead = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) - config.wakeup_bytes;

	bpf_ringbuf_submit(e, ahead < 1024 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/*
 * Keeps the compiler from merging what differs in the registers read only: the
 * verifier takes no computed offset into the context.
 */
#define APART(ctx, number) asm volatile("" : "+r"(ctx) : "i"(number))

static __always_inline void send_short(struct pt_regs *ctx, const struct place *at)
{
	struct lbt_event *e;

	if (at->kind == LBT_ENTRY) {
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT_ENTRY, 0);
		if (!e)
			goto full;
		APART(ctx, 1);
		e->values[0] = ARGUMENT0(ctx);
		e->values[1] = ARGUMENT1(ctx);
		tell((struct lbt_runner *)&e->values[LBT_SHORT_VALUES], at);
	} else {
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT_RETURN, 0);
		if (!e)
			goto full;
		APART(ctx, 2);
		e->values[0] = RESULT0(ctx);
		e->values[1] = RESULT1(ctx);
	}
	head(e, at);
	submit(e);
	return;
full:
	ring_full(at);
}

static __always_inline void send_plain(struct pt_regs *ctx, const struct place *at)
{
	struct lbt_event *e = bpf_ringbuf_reserve(&ring, LBT_WHOLE, 0);

	if (!e) {
		ring_full(at);
		return;
	}
	head(e, at);
	e->values[0] = ARGUMENT0(ctx);
	e->values[1] = ARGUMENT1(ctx);
	e->values[2] = ARGUMENT2(ctx);
	e->values[3] = ARGUMENT3(ctx);
	e->values[4] = ARGUMENT4(ctx);
	e->values[5] = ARGUMENT5(ctx);
	tell((struct lbt_runner *)(e + 1), at);
	submit(e);
}

#endif
