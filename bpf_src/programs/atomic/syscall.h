/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* System calls: lbtrace/probes/syscall.py. */
#include "hit.h"
#include "stack/walk.h"

/*
 * Of each program, by the number of the call: 1 more than the cookie of its probe; 0: it has none. From
 * LBT_SYSCALLS on those of the probe that reads again what could not be read when the call began.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2 * LBT_SYSCALLS);
} syscall_entered_cookies SEC(".maps"), syscall_left_cookies SEC(".maps");

/* Whether there is something to read again for the thread, which leaves a system call. */
static __always_inline bool has_unread(void)
{
	__u32 tid = bpf_get_current_pid_tgid();

	return any_unread && !bpf_map_delete_elem(&unread_texts, &tid);
}

/* A function of its own: what calls it has little room on the stack. */
static __noinline __u64 find_cookie(void *cookies, __u32 number)
{
	__u64 *found = bpf_map_lookup_elem(cookies, &number);

	return found ? *found : 0;
}

/* A thread enters or leaves a system call. */
static __always_inline void pass(void *cookies, struct task_struct *task, struct pt_regs *regs,
				 __u64 number, __u16 kind)
{
	__u64 cookie;

	if (number >= LBT_SYSCALLS || LBT_32_BIT(task))
		return;
	cookie = find_cookie(cookies, number);
	if (cookie && kind == LBT_CLOSE && has_unread())
		cookie = find_cookie(cookies, LBT_SYSCALLS + number);
	if (!cookie)
		return;
	begin_walks(NULL, 0, 0);
	handle_hit_of(cookie - 1, regs, kind, false, NULL);
	end_walks();
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
