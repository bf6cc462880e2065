/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* System calls: lbtrace/probes/syscall.py. */
#include "hit.h"

/* By the number of the call: 1 more than the cookies of the probes at its entry and at its return;
 * 0: it has none. */
struct lbt_syscall {
	__u64 opens;
	__u64 closes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct lbt_syscall);
	__uint(max_entries, LBT_SYSCALLS);
} syscalls SEC(".maps");

#if defined(__TARGET_ARCH_x86)
#define LBT_32_BIT(task) ((task)->thread_info.status & 2) /* TS_COMPAT: its numbers are others */
#define SYSCALL_NUMBER(regs) BPF_CORE_READ((struct pt_regs___call *)(regs), orig_ax)
#else
#define LBT_32_BIT(task) ((task)->thread_info.flags >> 22 & 1) /* TIF_32BIT */
#define SYSCALL_NUMBER(regs) BPF_CORE_READ((struct pt_regs___call *)(regs), syscallno)
#endif

static __always_inline struct lbt_syscall *find_syscall(struct task_struct *task, __u64 number)
{
	__u32 key = number;

	if (number >= LBT_SYSCALLS || LBT_32_BIT(task))
		return NULL;
	return bpf_map_lookup_elem(&syscalls, &key);
}

SEC("?raw_tp/sys_enter")
int syscall_entered(__u64 *args)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct lbt_syscall *found = find_syscall(task, args[1]);

	if (found && found->opens)
		handle_hit_of(found->opens - 1, (struct pt_regs *)bpf_task_pt_regs(task), LBT_OPEN,
			      false, NULL);
	return 0;
}

SEC("?raw_tp/sys_exit")
int syscall_left(__u64 *args)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct lbt_syscall *found = find_syscall(task, (__s64)SYSCALL_NUMBER(regs));

	if (found && found->closes)
		handle_hit_of(found->closes - 1, regs, LBT_CLOSE, false, NULL);
	return 0;
}
