/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Return addresses that uretprobes have replaced, by whatever tool. */
#ifndef STACK_HOOKED_H
#define STACK_HOOKED_H

#include "stack/mapping.h"
#include "stacks.h"

static __always_inline void start_hooked(struct stack_walk *walk)
{
	struct task_struct *task = bpf_get_current_task_btf();

	walk->trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	walk->pending = walk->trampoline ? (__u64)BPF_CORE_READ(task, utask, return_instances) : 0;
}

/*
 * Puts the address back to which a call returns whose return address is at a place of the stack. The
 * pending returns are in the stack's order, so that the search goes on where it stopped. Of a
 * function that jumped to another one both are pending: the earlier one has the address.
 */
static __noinline bool find_hooked(struct stack_walk *walk, __u64 place)
{
	struct return_instance *pending = (void *)walk->pending;
	bool found = false;

	for (int i = 0; i < LBT_MAX_HOOKS && pending; i++) {
		if (BPF_CORE_READ(pending, stack) == place && !BPF_CORE_READ(pending, chained)) {
			walk->ip = BPF_CORE_READ(pending, orig_ret_vaddr);
			found = true;
		}
		pending = BPF_CORE_READ(pending, next);
		if (found)
			break;
	}
	if (found)
		walk->pending = (__u64)pending;
	return found;
}

#endif
