/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* What signals interrupt whose handlers run on another stack. */
#include "event.h"
#include "backup_programs.h"
#include "stacks.h"

#define SA_ONSTACK 0x08000000 /* include/uapi/asm-generic/signal-defs.h */

/*
 * A handler begins, on the alternate signal stack if the thread has one and is not on it
 * already (sigsp() in include/linux/sched/signal.h). Only here it is known on which stack the thread
 * was: it may have gone to another one since its last event.
 */
WITH_BACKUPS(signal_deliver, interrupted)
{
	const struct k_sigaction *action = (void *)args[2];
	struct task_struct *task = bpf_get_current_task_btf();
	struct hit at = { .kind = LBT_INTERRUPT };
	struct lbt_event *e = NULL;

	if (config.backups &&
	    is_handled(LBT_INTERRUPTED, task->start_boottime,
		       stack_pointer_in((void *)bpf_task_pt_regs(task)),
		       task->nvcsw + task->nivcsw, by))
		return 0;
	if (!(BPF_CORE_READ(action, sa.sa_flags) & SA_ONSTACK) || !task->sas_ss_size ||
	    !identify(&at))
		return 0;
	at.frame = stack_pointer_in((void *)bpf_task_pt_regs(task));
	if (on_altstack(at.frame))
		return 0;
	at.stack = at.frame;
	find_stack(&at);
	at.time = bpf_ktime_get_ns();
	if (!any_lost || send_losses(&at))
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT, 0);
	if (!e) {
		at.kind = 0;
		ring_full(&at);
		return 0;
	}
	write_header(e, &at);
	__builtin_memset(e->values, 0, 8 * LBT_SHORT_VALUES);
	submit(e);
	return 0;
}
