/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* When threads do not run: bpf_src/off_cpu.h, lbtrace/probes/off_cpu.py. */
#include "hit.h"

#define TASK_DEAD 0x80 /* include/linux/sched.h */
#define LBT_SLEEPS 0x0f /* the bits that say how: S, D, T, t; none with locks of PREEMPT_RT, as D */
#define LBT_UNINTERRUPTIBLE 2
#define LBT_CALL_OF_32_BITS (-2)

/* Where the thread is that is being switched out. */
static __noinline void locate(struct lbt_thread_time *known, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct hit at = { .pid = known->pid, .tid = known->tid };

	known->call = LBT_32_BIT(task) ? LBT_CALL_OF_32_BITS : (__s32)SYSCALL_NUMBER(regs);
	at.stack = stack_pointer_in(regs) - 8; /* as lbtrace/plan/syscalls.py has calls below */
	if (on_altstack(at.stack))
		at.bits |= LBT_ON_ALTSTACK;
	find_stack(&at);
	/* where the kernel changes the mappings, it is in the call that is open, and ends none */
	known->frame = at.other & 1 ? 1 : at.stack;
	if (known->frame != 1 && config.off_cpu == LBT_OFF_CPU_IN_KERNEL)
		known->frame -= LBT_KERNEL_STACK;
	known->lane = at.other & 1 ? 0 : at.other;
	known->bits = at.bits;
}

/* The current thread, which is about to be switched out. */
static __always_inline void leave(bool preempted, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const __u32 state = task->__state;
	__u32 tid = task->pid;
	struct lbt_thread_time *known = bpf_map_lookup_elem(&thread_times, &tid);

	if (!known)
		return;
	if (state & TASK_DEAD) {
		bpf_map_delete_elem(&thread_times, &tid);
		return;
	}
	known->woken = preempted || !state ? now : 0;
	known->left = now;
	if (known->woken)
		return;
	known->state = state & LBT_SLEEPS ?: LBT_UNINTERRUPTIBLE;
	locate(known, task);
}

/* A thread runs again that was blocked for long. */
static __noinline void send_blocked(const struct lbt_thread_time *known, __u64 blocked,
				    __u64 runnable)
{
	struct hit at = {
		.time = known->resumed,
		.frame = known->frame,
		.other = known->lane,
		.probe = config.off_cpu_probe,
		.pid = known->pid,
		.tid = known->tid,
		.kind = LBT_POINT,
		.bits = known->bits,
	};
	struct lbt_event *e = NULL;

	if (!any_lost || send_losses(&at))
		e = bpf_ringbuf_reserve(&ring, LBT_WHOLE, 0);
	if (!e) {
		ring_full(&at);
		return;
	}
	write_header(e, &at);
	e->values[0] = blocked;
	e->values[1] = runnable;
	e->values[2] = known->state;
	e->values[3] = known->call;
	e->values[4] = e->values[5] = 0;
	submit(e);
}

/* A thread is about to run. */
static __always_inline void resume(struct task_struct *task, __u64 now)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct lbt_thread_time *known = bpf_map_lookup_elem(&thread_times, &tid);
	__u64 blocked, woken;

	if (!known)
		return;
	if (!known->left) { /* it was not seen leaving */
		miss_switch(known);
		return;
	}
	woken = known->woken ?: now;
	blocked = woken - known->left;
	known->sum.blocked += blocked;
	known->sum.runnable += now - woken;
	known->left = 0;
	known->resumed = now;
	if (blocked >= config.off_cpu_bound)
		send_blocked(known, blocked, now - woken);
}

SEC("?raw_tp/sched_switch")
int switched(__u64 *args)
{
	__u64 now = bpf_ktime_get_ns();

	leave(args[0], now);
	resume((struct task_struct *)args[2], now);
	return 0;
}

/* The thread need not be the current one. */
SEC("?raw_tp/sched_wakeup")
int woken(__u64 *args)
{
	__u32 tid = BPF_CORE_READ((struct task_struct *)args[0], pid);
	struct lbt_thread_time *known = bpf_map_lookup_elem(&thread_times, &tid);

	if (known && known->left && !known->woken)
		known->woken = bpf_ktime_get_ns();
	return 0;
}
