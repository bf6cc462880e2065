/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Sends the callers of what is sent next, as an event of kind LBT_CALLERS. */
#ifndef STACK_SEND_H
#define STACK_SEND_H

#include "event.h"

#ifdef LBT_EARLY

static __always_inline void send_stack(struct pt_regs *ctx, const struct hit *at,
				       const struct lbt_spec *spec, bool popped)
{
}

#else

#include "stack/walk.h"

#define SEND_STACK(most)                                                                           \
	do {                                                                                       \
		e = bpf_ringbuf_reserve(&ring, LBT_WHOLE + sizeof(walk->frames[0]) * (most), 0);   \
		if (!e)                                                                            \
			goto full;                                                                 \
		write_header(e, at);                                                               \
		e->kind = LBT_CALLERS;                                                               \
		e->blob = sizeof(walk->frames[0]) * (most) | 1 << 16;                              \
		bpf_probe_read_kernel((char *)e + LBT_WHOLE, sizeof(walk->frames[0]) * (most),     \
				      walk->frames + first);                                       \
	} while (0)

/*
 * The function that was hit is known: its callers are sent. Where a hit is not in a function of the
 * program, as a system call's, or the function has returned, the innermost frame is one of them.
 */
static __noinline int send_callers(struct pt_regs *ctx, const struct hit *at, __u32 place,
				   __u32 first)
{
	struct stack_walk *walk = walk_user_stack(ctx, config.stack_depth + first, place);
	struct lbt_event *e;
	__u64 size;

	if (!walk)
		goto full;
	first = first && (!walk->outside || walk->above);
	if (config.stack_depth <= 8)
		SEND_STACK(8);
	else if (config.stack_depth <= 32)
		SEND_STACK(32);
	else
		SEND_STACK(LBT_STACK_FRAMES - 1);
	size = walk->depth > first ? sizeof(walk->frames[0]) * (walk->depth - first) : 0;
	e->values[0] = size << 32 | size;
	e->values[1] = walk->end;
	for (int i = 2; i < LBT_VALUES; i++)
		e->values[i] = 0;
	submit(e);
	return 0;
full:
	increment(LBT_STACKS_LOST);
	return 0;
}

static __always_inline void send_stack(struct pt_regs *ctx, const struct hit *at,
				       const struct lbt_spec *spec, bool popped)
{
	if (config.stack_depth && at->kind != LBT_CLOSE)
		send_callers(ctx, at, stack_place(at, spec, popped),
			     !popped && spec->sp_delta >= 0);
}

#endif

#endif
