/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Functions of the kernel: lbtrace/probes/kernel.py. */
#include "hit.h"
#include "stack/walk.h"

#define LBT_NO_USER_STACK (1ULL << 46) /* of threads that never run a program, as io_uring's */

#if defined(__TARGET_ARCH_x86)
/*
 * Where x86 counts what keeps a CPU from switching tasks: a variable of its own, or, from 6.2 to 6.14,
 * a member of another one. Where the kernel's types have neither, only the stack tells interrupts.
 */
struct pcpu_hot {
	int preempt_count;
} __attribute__((preserve_access_index));

extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/*
 * Whether an interrupt is being handled, of hardware or later (include/linux/preempt.h). A ``breakpoint``,
 * which the entry of a function is not, counts as one itself: as an NMI (irqentry_nmi_enter()).
 */
static __always_inline bool is_interrupt(__u32 count, bool breakpoint)
{
	const __u32 hard_or_nmi = 0xff0000, soft = 0x100; /* 0x200 and more: they are held back */

	count &= hard_or_nmi | soft;
	return count && !(breakpoint && count == 0x110000);
}

static __always_inline bool handles_interrupt(bool breakpoint)
{
	if (bpf_ksym_exists(&__preempt_count))
		return is_interrupt(*(const int *)bpf_this_cpu_ptr(&__preempt_count), breakpoint);
	if (bpf_ksym_exists(&pcpu_hot)) {
		const struct pcpu_hot *hot = bpf_this_cpu_ptr(&pcpu_hot);

		return is_interrupt(hot->preempt_count, breakpoint);
	}
	return false;
}
#else
/* Interrupts have stacks of their own: call_on_irq_stack() in arch/arm64/kernel/entry.S. */
static __always_inline bool handles_interrupt(bool breakpoint)
{
	return false;
}
#endif

/*
 * Finds where a hit of a traced thread is, false where it is of no such thread. Its frame is so far
 * below the stack pointer with which the program has entered the kernel as the function's is below
 * the top of the thread's stack in the kernel. So it is inside of the system call, or else of the
 * program's function, and calls nest as they do in the kernel. A function of its own: what calls
 * this has little room on the stack.
 */
static __noinline bool find_below(struct pt_regs *ctx, __u16 kind, struct below *found)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *user = (struct pt_regs *)bpf_task_pt_regs(task);
	struct hit who = {};
	__u64 top = 0, depth;

	if (!found || !identify(&who) || !who.tid) /* what CPUs do while idle shares a number */
		return false;
	bpf_probe_read_kernel(&top, sizeof(top), &user); /* as a number */
	depth = top - STACK_POINTER(ctx);
	if (depth - 1 >= LBT_KERNEL_STACK || handles_interrupt(kind == LBT_POINT)) {
		if (kind != LBT_CLOSE)
			increment(LBT_IN_INTERRUPT);
		return false;
	}
	found->stack = stack_pointer_in(user) ?: LBT_NO_USER_STACK;
	found->frame = found->stack - sizeof(__u64) - depth;
	if (!task->mm) /* it has ended: no mapping tells any longer which stack it was on */
		found->stack = 0;
	return true;
}

/* A thread enters or leaves a function of the kernel. */
static __always_inline void pass_function(struct pt_regs *ctx, __u16 kind, bool popped)
{
	const bool walks = kind != LBT_CLOSE || config.deferred || config.aggregating;
	struct below below = {};

	if (!find_below(ctx, kind, &below))
		return;
	if (walks)
		begin_walks(ctx, popped, popped ? 0 : INSTRUCTION_POINTER(ctx)); /* a return is in the kernel's trampoline */
	handle_record(cookie_of(ctx), ctx, 0, &below, kind, popped, NULL);
	if (walks)
		end_walks();
}

SEC("?kprobe")
int kernel_entered(struct pt_regs *ctx)
{
	pass_function(ctx, LBT_OPEN, false);
	return 0;
}

/* Inside of a function, whose frame is above. */
SEC("?kprobe")
int kernel_reached(struct pt_regs *ctx)
{
	pass_function(ctx, LBT_POINT, false);
	return 0;
}

SEC("?kretprobe")
int kernel_returned(struct pt_regs *ctx)
{
	pass_function(ctx, LBT_CLOSE, true);
	return 0;
}
