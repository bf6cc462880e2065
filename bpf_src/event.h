/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Which processes are traced, and the events of plain probes. */
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
static __noinline bool number_nested(struct hit *who)
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

/* The number of a process in the reader's namespace, 0 outside it. */
static __noinline __u32 number_of(struct task_struct *process)
{
	struct pid *pid = BPF_CORE_READ(process, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);

	for (__u32 i = 0; i < LBT_PID_LEVELS; i++) {
		struct upid *number = number_at(pid, i);

		if (i > level)
			break;
		if (BPF_CORE_READ(number, ns, ns.inum) == config.pidns_inode)
			return BPF_CORE_READ(number, nr);
	}
	return 0;
}

#define LBT_CGROUP_LEVELS 32 /* the kernel's bound is none: what lies deeper is not found */

/* Whether the current task is in the cgroup that is traced, or in one below it. */
static __noinline bool in_cgroup(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct cgroup *each = BPF_CORE_READ(task, cgroups, dfl_cgrp);

	for (int i = 0; i < LBT_CGROUP_LEVELS && each; i++) {
		if (BPF_CORE_READ(each, kn, id) == config.cgroup)
			return true;
		each = BPF_CORE_READ(each, self.parent, cgroup);
	}
	return false;
}

/* False for a process that is not traced. */
static __always_inline bool identify(struct hit *who)
{
	if (config.typed_task) {
		struct task_struct *task = bpf_get_current_task_btf();

		who->pid = task->tgid;
		who->tid = task->pid;
	} else {
		__u64 ids = bpf_get_current_pid_tgid();

		who->pid = ids >> 32;
		who->tid = ids;
	}
	if (config.pidns_inode) {
		struct bpf_pidns_info ns;

		if (!bpf_get_ns_current_pid_tgid(config.pidns_device, config.pidns_inode, &ns, sizeof(ns))) {
			who->pid = ns.tgid;
			who->tid = ns.pid;
		} else if (!number_nested(who)) {
			return false;
		}
	}
	if (config.own && who->pid == config.own)
		return false;
	if (config.cgroup && !in_cgroup())
		return false;
	if (!config.root || who->pid == config.root)
		return true;
	return config.follow && bpf_map_lookup_elem(&followed, &who->pid);
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

/* How deep the innermost namespace of the current thread is. */
LBT_VISITED_ONCE __u32 namespace_level(void)
{
	return bpf_get_current_task_btf()->thread_pid->level;
}

/*
 * Sets that number, if that is not the reader's namespace. Where the reader's is not the
 * initial one, identify() has done so.
 */
static __always_inline void resolve_inner_tid(struct hit *who)
{
	if (config.pidns_inode)
		return;
	if (!config.typed_task || namespace_level())
		who->inside = number_inside();
}

/* Reading the task costs a tenth of asking a helper. */
static __always_inline void write_runner(struct lbt_runner *who, const struct hit *at)
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

static __always_inline void write_header(struct lbt_event *e, const struct hit *at)
{
	e->time = at->time;
	e->frame = at->frame;
	e->lane = at->goroutine ?: at->other;
	e->probe = at->probe;
	e->pid = at->pid;
	e->tid = at->tid;
	e->kind = at->kind | at->bits | (at->kind == LBT_OPEN ? LBT_NAMED : 0);
	e->faults = 0;
	e->cpu = bpf_get_smp_processor_id();
	e->blob = 0;
}

/*
 * A wake-up costs more than all the rest of an event: the reader polls, and is woken, once, only
 * when the ring fills while it sleeps.
 */
static __always_inline void submit(struct lbt_event *e)
{
	/* read anew rather than kept, for which the stack has no room */
	if (wake_at && bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= wake_at) {
		wake_at = 0;
		bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	} else {
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
}

static __always_inline bool has_losses(const struct hit *at)
{
	__u64 lane = lane_of(at);

	return bpf_map_lookup_elem(&pending_losses, &lane);
}

/* Reports what the lane has lost, before its next event; false where there is no room. */
static __noinline bool send_losses(const struct hit *at)
{
	__u64 lane = lane_of(at);
	struct lbt_loss *pending = bpf_map_lookup_elem(&pending_losses, &lane);
	struct lbt_event *e;

	if (!pending)
		return true;
	e = bpf_ringbuf_reserve(&ring, LBT_SHORT, 0);
	if (!e)
		return false;
	write_header(e, at);
	e->kind = (e->kind & ~(LBT_KIND_MASK | LBT_NAMED)) | LBT_LOSS;
	__builtin_memcpy(e->values, pending->lost, sizeof(pending->lost));
	submit(e);
	bpf_map_delete_elem(&pending_losses, &lane);
	return true;
}

static __always_inline void send_selected(struct pt_regs *ctx, const struct hit *at,
					const struct lbt_spec *spec)
{
	struct lbt_event *e;

	if (any_lost && !send_losses(at))
		goto full;
	if (spec->selected <= LBT_SHORT_VALUES) {
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT_NAMED, 0);
		if (!e)
			goto full;
		e->values[0] = select_register(ctx, spec->selection[0]);
		e->values[1] = select_register(ctx, spec->selection[1]);
		write_runner((struct lbt_runner *)&e->values[LBT_SHORT_VALUES], at);
	} else {
		e = bpf_ringbuf_reserve(&ring, LBT_WHOLE, 0);
		if (!e)
			goto full;
		for (int i = 0; i < LBT_VALUES; i++)
			e->values[i] = select_register(ctx, spec->selection[i]);
		write_runner((struct lbt_runner *)(e + 1), at);
	}
	write_header(e, at);
	submit(e);
	return;
full:
	ring_full(at);
}

static __always_inline void send_short(struct pt_regs *ctx, const struct hit *at)
{
	struct lbt_event *e;

	if (any_lost && !send_losses(at))
		goto full;
	if (at->kind != LBT_CLOSE) {
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT_NAMED, 0);
		if (!e)
			goto full;
		APART(ctx, 1);
		e->values[0] = ARGUMENT0(ctx);
		e->values[1] = ARGUMENT1(ctx);
		write_runner((struct lbt_runner *)&e->values[LBT_SHORT_VALUES], at);
	} else {
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT, 0);
		if (!e)
			goto full;
		APART(ctx, 2);
		e->values[0] = RESULT0(ctx);
		e->values[1] = RESULT1(ctx);
	}
	write_header(e, at);
	submit(e);
	return;
full:
	ring_full(at);
}

static __always_inline void send_plain(struct pt_regs *ctx, const struct hit *at)
{
	struct lbt_event *e = NULL;

	if (!any_lost || send_losses(at))
		e = bpf_ringbuf_reserve(&ring, LBT_WHOLE, 0);
	if (!e) {
		ring_full(at);
		return;
	}
	write_header(e, at);
	e->values[0] = ARGUMENT0(ctx);
	e->values[1] = ARGUMENT1(ctx);
	e->values[2] = ARGUMENT2(ctx);
	e->values[3] = ARGUMENT3(ctx);
	e->values[4] = ARGUMENT4(ctx);
	e->values[5] = ARGUMENT5(ctx);
	write_runner((struct lbt_runner *)(e + 1), at);
	submit(e);
}

#endif
