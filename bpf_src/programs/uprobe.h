/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Probes on instructions of files: lbtrace/probes/uprobe.py. */
#include "left.h"

SEC("?uprobe")
int entered(struct pt_regs *ctx)
{
	handle_opening(ctx, false);
	return 0;
}

SEC("?uretprobe")
int returned(struct pt_regs *ctx)
{
	handle_hit(ctx, LBT_CLOSE, true);
	return 0;
}

/* Attached to an instruction that leaves the function. */
SEC("?uprobe")
int exit_site(struct pt_regs *ctx)
{
	handle_hit(ctx, LBT_CLOSE, false);
	return 0;
}

/* Attached behind a call: what was called may have jumped to what has returned. */
SEC("?uprobe")
int after_call(struct pt_regs *ctx)
{
	handle_hit(ctx, LBT_CLOSE, false);
	return 0;
}

/* Attached where something happens other than the opening or closing of a call. */
SEC("?uprobe")
int reached(struct pt_regs *ctx)
{
	handle_hit(ctx, LBT_POINT, false);
	return 0;
}

/* Attached where an exception lands. Calls that wait for their return are asked for first. */
SEC("?uprobe")
int landed(struct pt_regs *ctx)
{
	if (config.shows_left)
		show_all_left(ctx, cookie_of(ctx));
	land(ctx);
	return 0;
}

/* From 7.0 on it takes the context; libbpf resolves the one that fits. */
extern bool bpf_session_is_return(void) __ksym __weak;
extern bool bpf_session_is_return___with_context(void *ctx) __ksym __weak;

SEC("?uprobe")
int session(struct pt_regs *ctx)
{
	bool returns;

	if (bpf_ksym_exists(bpf_session_is_return___with_context))
		returns = bpf_session_is_return___with_context(ctx);
	else
		returns = bpf_session_is_return();
	if (returns) {
		handle_hit(ctx, LBT_CLOSE, true);
		return 0;
	}
	/* 1: the kernel leaves the return address alone */
	return !handle_opening(ctx, true);
}
