/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* System calls: lbtrace/probes/syscall.py. */
#include "hit.h"

/* Of each program, by the number of the call: 1 more than the cookie of its probe; 0: it has none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, LBT_SYSCALLS);
} syscall_entered_cookies SEC(".maps"), syscall_left_cookies SEC(".maps");

#if defined(__TARGET_ARCH_x86)
#define LBT_32_BIT(task) ((task)->thread_info.status & 2) /* TS_COMPAT: its numbers are others */
#define SYSCALL_NUMBER(regs) BPF_CORE_READ((struct pt_regs___call *)(regs), orig_ax)
#else
#define LBT_32_BIT(task) ((task)->thread_info.flags >> 22 & 1) /* TIF_32BIT */
#define SYSCALL_NUMBER(regs) BPF_CORE_READ((struct pt_regs___call *)(regs), syscallno)
#endif

/* A thread enters or leaves a system call. */
static __always_inline void pass(void *cookies, struct task_struct *task, struct pt_regs *regs,
				 __u64 number, __u16 kind)
{
	__u32 key = number;
	__u64 *cookie;

	if (number >= LBT_SYSCALLS || LBT_32_BIT(task))
		return;
	cookie = bpf_map_lookup_elem(cookies, &key);
	if (cookie && *cookie)
		handle_hit_of(*cookie - 1, regs, kind, false, NULL);
}

SEC("?raw_tp/sys_enter")
int syscall_entered(__u64 *args)
{
	struct task_struct *task = bpf_get_current_task_btf();

	pass(&syscall_entered_cookies, task, (struct pt_regs *)bpf_task_pt_regs(task), args[1],
	     LBT_OPEN);
	return 0;
}

SEC("?raw_tp/sys_exit")
int syscall_left(__u64 *args)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	pass(&syscall_left_cookies, task, regs, (__s64)SYSCALL_NUMBER(regs), LBT_CLOSE);
	return 0;
}
