/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* System calls: lbtrace/probes/syscall.py. */
#include "backup_programs.h"
#include "hit.h"
#include "refused_calls.h"
#include "stack/walk.h"

/*
 * Of each program, by the number of the call: 1 more than the cookie of its probe; 0: it has none. From
 * LBT_SYSCALLS on those of the probe that reads again what could not be read when the call began, and
 * the last one is of all other numbers.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2 * LBT_SYSCALLS + 1);
} syscall_entered_cookies SEC(".maps"), syscall_left_cookies SEC(".maps");

struct lbt_passed {
	__u16 kind;
	__u16 by; /* 0: the program, then its backup programs */
};

/*
 * At which end of a system call a thread was last, and which of the programs handled it, only where
 * programs have backup programs. The ends take turns: what a program finds of the same end is by the
 * programs before it. Another one's is of the call before, if all programs of the other end were busy.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32); /* tid in the initial namespace */
	__type(value, struct lbt_passed);
	__uint(max_entries, 16384);
} passed_ends SEC(".maps");

/* Whether a program before this one has handled what happens now; else this one is to. */
static __noinline bool is_passed(__u32 kind, __u32 by)
{
	struct lbt_passed now = { .kind = kind, .by = by };
	__u32 tid = bpf_get_current_pid_tgid();
	struct lbt_passed *last = bpf_map_lookup_elem(&passed_ends, &tid);

	if (last && last->kind == kind && last->by < by)
		return true;
	if (last)
		*last = now;
	else
		bpf_map_update_elem(&passed_ends, &tid, &now, 0);
	return false;
}

/* Whether there is something to read again for the thread, which leaves a system call. */
static __always_inline bool has_unread(void)
{
	__u32 tid;

	if (!any_unread)
		return false;
	tid = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&unread_texts, &tid);
}

/* It has left the call. */
static __always_inline void forget_unread(void)
{
	__u32 tid = bpf_get_current_pid_tgid();

	if (any_unread && !bpf_map_delete_elem(&unread_texts, &tid))
		ADD(&any_unread, -1);
}

static __always_inline __u64 find_cookie(void *cookies, __u64 number)
{
	__u32 key = number < LBT_SYSCALLS ? number : 2 * LBT_SYSCALLS;
	__u64 *found = bpf_map_lookup_elem(cookies, &key);

	if (number == ~0ULL) /* where rt_sigreturn ends */
		return 0;
	return found ? *found : 0;
}

static __always_inline __u64 find_cookie_of_unread(void *cookies, __u64 number)
{
	__u32 key = LBT_SYSCALLS + number;
	__u64 *found = number < LBT_SYSCALLS ? bpf_map_lookup_elem(cookies, &key) : NULL;

	return found ? *found : 0;
}

/* Whether a thread that leaves a call has executed a program: nothing is left of what it has passed. */
static __always_inline bool has_executed(const struct pt_regs *regs, __u64 number)
{
	return LBT_EXECUTES(number) && !RESULT0(regs);
}

/* Which call a thread leaves: x86 calls execveat execve there (set_personality_64bit()). */
static __always_inline __u64 number_left(const struct pt_regs *regs)
{
	const __u64 number = (__s64)SYSCALL_NUMBER(regs);
	const struct lbt_executing *now = has_executed(regs, number) ? find_executing() : NULL;

	return now ? now->number : number;
}

/* A thread enters or leaves a system call that has a probe. */
static __always_inline void pass(__u64 cookie, struct pt_regs *regs, __u64 number, __u16 kind)
{
	struct below below = {};

	if (!cookie)
		return;
	below.frame = STACK_POINTER(regs);
	below.stack = below.frame - sizeof(__u64);
	if (LBT_EXECUTES(number) && kind == LBT_OPEN)
		begin_executing(below.frame, number);
	else if (LBT_EXECUTES(number)) /* the program that it has executed has another stack */
		below.frame = stop_executing(below.frame, has_executed(regs, number));
	begin_walks(NULL, 0, 0);
	handle_record(cookie - 1, regs, 0, &below, kind, false, NULL);
	end_walks();
	if (kind == LBT_CLOSE) {
		forget_unread();
		if (LBT_EXECUTES(number))
			forget_executing();
	}
}

/* Whether a thread may leave a call confined that was not, or not there, before. */
static __always_inline bool confines(__u64 number)
{
	return config.refusals && (LBT_BEGINS(number) || LBT_CONFINES(number));
}

/* The programs below, for each other, and where programs have backup programs. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} syscall_entered_program SEC(".maps"), syscall_left_program SEC(".maps");

/* Also where a thread leaves a call that was refused. */
SEC("?raw_tp/sys_enter")
int syscall_entered(__u64 *args)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	const __u64 number = (__s64)SYSCALL_NUMBER(regs);
	const __u64 cookie = find_cookie(&syscall_entered_cookies, number);
	__u32 before = 0;

	if (!cookie || LBT_32_BIT(task)) /* of all calls on the machine most have no probe */
		return 0;
	if (config.refusals && is_confined(task) && find_cookie(&syscall_left_cookies, number))
		before = enter();
	pass(cookie, regs, number, LBT_OPEN);
	if (before == LBT_IS_REFUSED)
		bpf_tail_call(args, &syscall_left_program, 0);
	return 0;
}

SEC("?raw_tp/sys_exit")
int syscall_left(__u64 *args)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	const __u64 number = number_left(regs);
	__u64 cookie = find_cookie(&syscall_left_cookies, number);

	if ((cookie || confines(number)) && config.refusals && is_confined(task) &&
	    leave(number, RESULT0(regs), cookie, has_executed(regs, number)))
		bpf_tail_call(args, &syscall_entered_program, 0);
	if (!cookie || LBT_32_BIT(task))
		return 0;
	if (has_unread() && !has_executed(regs, number))
		cookie = find_cookie_of_unread(&syscall_left_cookies, number) ?: cookie;
	pass(cookie, regs, number, LBT_CLOSE);
	return 0;
}

/*
 * Where programs have backup programs, these are attached, and go on to the programs above, which the
 * verifier thus reads once: a program that is reached by a tail call is never busy.
 *
 * Whether a program is to handle this end of a call: what has a cookie in ``cookies``, or in those
 * of the ``other`` end.
 */
static __noinline bool is_turn(void *cookies, void *other, __u64 number, __u32 kind, __u32 by)
{
	const __u64 cookie = find_cookie(cookies, number);

	if ((!cookie && !find_cookie(other, number)) || is_passed(kind, by))
		return false;
	if (cookie && by)
		increment(LBT_BY_BACKUP);
	return cookie;
}

WITH_BACKUPS(sys_enter, syscall_entered_turn)
{
	if (is_turn(&syscall_entered_cookies, &syscall_left_cookies, args[1], LBT_OPEN, by))
		bpf_tail_call(args, &syscall_entered_program, 0);
	return 0;
}

WITH_BACKUPS(sys_exit, syscall_left_turn)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 number = number_left((struct pt_regs *)bpf_task_pt_regs(task));

	if (is_turn(&syscall_left_cookies, &syscall_entered_cookies, number, LBT_CLOSE, by) ||
	    (confines(number) && !find_cookie(&syscall_left_cookies, number)))
		bpf_tail_call(args, &syscall_left_program, 0);
	return 0;
}
