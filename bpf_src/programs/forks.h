/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Which processes continue calls of others. */
#include "event.h"
#include "forked_stacks.h"
#include "backup_programs.h"
#include "stacks.h"

/*
 * Where the kernel's stack of a task that has not run yet holds the registers with which it will
 * (copy_thread() in arch/x86/kernel/process.c, arch/arm64/kernel/process.c).
 */
static __always_inline __u64 first_registers(struct task_struct *child)
{
#if defined(__TARGET_ARCH_x86)
	return BPF_CORE_READ(child, thread.sp) + bpf_core_field_offset(struct fork_frame, regs);
#else
	return BPF_CORE_READ(child, thread.cpu_context.sp);
#endif
}

/* The number of a process in the innermost of its namespaces, 0 if that is the reader's. */
static __noinline __u32 number_inside_of(struct task_struct *process)
{
	struct pid *pid = BPF_CORE_READ(process, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid *innermost = number_at(pid, level);

	if (!level || BPF_CORE_READ(innermost, ns, ns.inum) == config.pidns_inode)
		return 0;
	return BPF_CORE_READ(innermost, nr);
}

/* An event with a fork's values, or two others; false where there is no room. */
static __noinline bool send_process(const struct hit *at, const struct lbt_fork *fork)
{
	struct lbt_event *e;

	if (any_lost && !send_losses(at))
		return false;
	e = bpf_ringbuf_reserve(&ring, LBT_SHORT, 0);
	if (!e)
		return false;
	write_header(e, at);
	__builtin_memcpy(e->values, fork, sizeof(*fork));
	submit(e);
	return true;
}

/*
 * A thread forks, which may have open calls: it has come by a probe, or its process was forked by
 * one that may have had. It is reported before the child runs. Both have their registers at the same
 * place of their stacks in the kernel.
 */
WITH_BACKUPS(sched_process_fork, continued)
{
	struct task_struct *child = (struct task_struct *)args[1];
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 registers = first_registers(child);
	struct hit parent = { .kind = LBT_FORK };
	struct lbt_fork fork = {};
	struct lbt_forked_stack forked;

	if (is_handled_fork(LBT_CONTINUED, child, by))
		return 0;

	fork.pid = BPF_CORE_READ(child, tgid);
	if (fork.pid != BPF_CORE_READ(child, pid) || !identify(&parent))
		return 0;
	if (!BPF_CORE_READ(task, utask) && !bpf_map_lookup_elem(&forked_stacks, &tgid))
		return 0;
	parent.time = bpf_ktime_get_ns();
	parent.frame = stack_pointer_in((void *)(registers - (__u64)BPF_CORE_READ(child, stack) +
						 (__u64)BPF_CORE_READ(task, stack)));
	fork.continues = parent.frame && stack_pointer_in((void *)registers) == parent.frame;
	if (fork.continues) {
		forked = forked_stack_of(task, parent.frame, parent.pid == parent.tid);
		bpf_map_update_elem(&forked_stacks, &fork.pid, &forked, 0);
		any_forked_stacks = 1;
	} else { /* it inherits nothing, and begins on another stack, which is its own */
		forked = (struct lbt_forked_stack){ .pointer = ~0ULL };
		forked.top = stack_pointer_in((void *)registers) - 1;
		bpf_map_update_elem(&forked_stacks, &fork.pid, &forked, 0);
		any_forked_stacks = 1;
	}
	if (config.pidns_inode)
		fork.pid = number_of(child);
	fork.born = BPF_CORE_READ(child, start_boottime) >> 10;
	fork.inside = number_inside_of(child) |
		      (__u32)BPF_CORE_READ(child, self_exec_id) << LBT_INSIDE_BITS;
	if (on_altstack(parent.frame))
		parent.bits |= LBT_ON_ALTSTACK;
	parent.stack = parent.frame;
	find_stack(&parent);
	if (!send_process(&parent, &fork)) {
		/* the child has lost what it would have begun with */
		parent.pid = fork.pid;
		parent.tid = fork.pid;
		parent.kind = 0;
		ring_full(&parent);
	}
	return 0;
}

/*
 * A process executes a program, which ends all of its calls: what is hit first in the new one may be
 * a probe whose event does not tell, such as where setjmp() returns.
 */
WITH_BACKUPS(sched_process_exec, executed)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct hit at = { .kind = LBT_EXEC };
	struct lbt_fork programs = {};
	__u64 number = BPF_CORE_READ(task, self_exec_id);

	if (config.backups &&
	    is_handled(LBT_EXECUTED, BPF_CORE_READ(task, start_boottime), number, 0, by))
		return 0;
	bpf_map_delete_elem(&forked_stacks, &tgid);
	if (!identify(&at))
		return 0;
	at.time = bpf_ktime_get_ns();
	programs.pid = (__u32)number << LBT_INSIDE_BITS;
	/*
	 * One that has no room is no event that is missing: the process may be anybody's, and if it is
	 * traced, its first event that names its thread tells as well.
	 */
	send_process(&at, &programs);
	return 0;
}
