/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Whether the jump under a probe leaves the function. */
#ifndef JUMP_H
#define JUMP_H

#include "fetch.h"
#include "registers.h"

/* False where a jump to a computed address stays in the function. */
static __noinline bool leads_out(struct pt_regs *ctx, const struct lbt_jump *jump)
{
	__u64 target = select_register(ctx, jump->base) + jump->offset;
	__s64 distance;

	target += select_register(ctx, jump->index) << (jump->shift & 3);
	if (jump->loads && read_user(&target, sizeof(target), target))
		return true; /* the program will fault */
	distance = target - INSTRUCTION_POINTER(ctx);
	for (int i = 0; i < LBT_RANGES; i++)
		if (distance >= jump->low[i] && distance < jump->high[i])
			return false;
	return true;
}

/* False where a hit does not count: there is no jump, or none out of the function. */
static __always_inline bool hit_applies(struct pt_regs *ctx, const struct lbt_spec *spec)
{
	__u32 flags = FLAGS(ctx);

	if (spec->unless & flags || (spec->only && !(spec->only & flags)))
		return false;
	return !config.jumps || !spec->jump.computed || leads_out(ctx, &spec->jump);
}

#endif
