// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/*
 * Sends an event for each entry and return of the traced functions.
 *
 * Which program is attached where is user space's choice: entered and returned
 * as a pair (plain or multi), or session for both. What an event holds is in
 * the specs; nothing is generated at run time.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "lbtrace.h"
#include "registers.h"
#include "generic.h"
#include "jump.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline __u64 cookie_of(void *ctx)
{
	return config.use_only_cookie ? config.only_cookie : bpf_get_attach_cookie(ctx);
}

/*
 * The goroutine that runs, and the frame as its distance from the top of the
 * goroutine's stack: Go moves stacks. The distance is negative, so that a
 * nested call has the lower frame as everywhere. False where g is unreadable.
 */
static __always_inline bool in_goroutine(struct pt_regs *ctx, const struct lbt_spec *spec,
					 struct place *at)
{
	__u64 g = 0, high;

	if (spec->go == LBT_GO_REGISTER)
		g = GO_REGISTER(ctx);
	else if (bpf_probe_read_user(&g, sizeof(g), (void *)(thread_pointer() - sizeof(g))))
		return false;
	if (bpf_probe_read_user(&at->goroutine, sizeof(__u64), (void *)(g + spec->go_goid)) ||
	    bpf_probe_read_user(&high, sizeof(high), (void *)(g + spec->go_stack_high)))
		return false;
	at->frame -= high;
	return true;
}

/*
 * From 6.13 on the JIT gives such programs a stack per CPU, as if nothing could
 * run them while they run. But a program of a uprobe is preempted, and sleeps,
 * and another task then runs it on the same stack: records were never
 * submitted, or with another's values. Programs that contain a tail call keep
 * the kernel's stack (check_max_stack_depth() in kernel/bpf/verifier.c); this
 * one is never reached, and the verifier removes it.
 */
#define KEEP_TASK_STACK()                                                                          \
	do {                                                                                       \
		if (config.never)                                                                  \
			asm volatile("call 12" ::: "r0", "r1", "r2", "r3", "r4", "r5", "memory");  \
	} while (0)

/*
 * False where the call is not traced. A uretprobe's return has popped the
 * return address already; a probe on a function's ret has not.
 */
static __always_inline bool hit(struct pt_regs *ctx, __u16 kind, bool popped)
{
	__u64 cookie = cookie_of(ctx);
	const struct lbt_spec *spec;
	struct place at = {
		.time = bpf_ktime_get_ns(),
		.frame = STACK_POINTER(ctx),
		.probe = LBT_COOKIE_PROBE(cookie),
		.spec = kind == LBT_ENTRY ? LBT_COOKIE_ENTRY(cookie) : LBT_COOKIE_RETURN(cookie),
		.kind = kind,
	};

	KEEP_TASK_STACK();
	if (!identify(&at))
		return false;
	spec = bpf_map_lookup_elem(&specs, &at.spec);
	if (!spec)
		return false;
	if (!counts(ctx, spec))
		return false;
	if (kind == LBT_ENTRY || config.deferred)
		look_inside(&at);
	at.frame += popped ? -LBT_RETURN_SLOT : spec->sp_delta;
	at.stack = at.frame;
	if (config.go && spec->go && !in_goroutine(ctx, spec, &at))
		at.goroutine = 0;
	if (config.generic && !spec->plain)
		return generic(ctx, &at, spec);
	if (kind == LBT_RETURN || spec->fetches <= LBT_SHORT_VALUES)
		send_short(ctx, &at);
	else
		send_plain(ctx, &at);
	return true;
}

SEC("uprobe")
int entered(struct pt_regs *ctx)
{
	hit(ctx, LBT_ENTRY, false);
	return 0;
}

SEC("uretprobe")
int returned(struct pt_regs *ctx)
{
	hit(ctx, LBT_RETURN, true);
	return 0;
}

/* Stands on the instruction that returns. */
SEC("uprobe")
int left(struct pt_regs *ctx)
{
	hit(ctx, LBT_RETURN, false);
	return 0;
}

/* From 7.0 on it takes the context; libbpf resolves the one that fits. */
extern bool bpf_session_is_return(void) __ksym __weak;
extern bool bpf_session_is_return___with_context(void *ctx) __ksym __weak;

SEC("uprobe")
int session(struct pt_regs *ctx)
{
	bool returns;

	if (bpf_ksym_exists(bpf_session_is_return___with_context))
		returns = bpf_session_is_return___with_context(ctx);
	else
		returns = bpf_session_is_return();
	if (returns) {
		hit(ctx, LBT_RETURN, true);
		return 0;
	}
	return !hit(ctx, LBT_ENTRY, false); /* 1: no return is wanted */
}

/*
 * A followed process forks: its child is followed before it runs. Whose parent is not
 * followed has nothing to do with an earlier process of that pid, whose end was missed.
 */
SEC("raw_tp/sched_process_fork")
int forked(__u64 *args)
{
	struct task_struct *child = (struct task_struct *)args[1];
	__u32 pid = BPF_CORE_READ(child, pid), tgid = BPF_CORE_READ(child, tgid);
	struct place parent;
	__u8 yes = 1;

	if (pid != tgid)
		return 0;
	if (identify(&parent))
		bpf_map_update_elem(&followed, &tgid, &yes, 0);
	else
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

/* Its last thread ends: the pid may come back as another process. */
SEC("raw_tp/sched_process_exit")
int exited(__u64 *args)
{
	struct task_struct *task = (struct task_struct *)args[0];
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!BPF_CORE_READ(task, signal, live.counter))
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}
