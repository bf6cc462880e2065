/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* On which stack a call is, and what hooking its return would harm. */
#ifndef STACKS_H
#define STACKS_H

#include "forked_stacks.h"
#include "registers.h"

#define LBT_MAX_HOOKS 64 /* MAX_URETPROBE_DEPTH, include/linux/uprobes.h */

/*
 * As the kernel's __on_sas_ss() (include/linux/sched/signal.h). A handler with
 * SS_AUTODISARM is not recognised: the kernel forgets the stack while it runs.
 */
static __always_inline bool on_altstack(__u64 stack)
{
	__u64 start, size;

	if (config.typed_task) {
		struct task_struct *task = bpf_get_current_task_btf();

		start = task->sas_ss_sp;
		size = task->sas_ss_size;
	} else {
		struct task_struct *task = (struct task_struct *)bpf_get_current_task();

		start = BPF_CORE_READ(task, sas_ss_sp);
		size = BPF_CORE_READ(task, sas_ss_size);
	}
	return stack > start && stack - start <= size;
}

#define LBT_SMALLEST_STACK (16 << 10) /* of a thread, PTHREAD_STACK_MIN of glibc, */
#define LBT_SMALLEST_FIRST (1 << 20)  /* with the gap below it: stack_guard_gap in mm/mmap.c */

#define LBT_UNKNOWN_STACK 1ULL /* or any stack of a thread, by twice its number */

/* A mapping in the memory of a process. */
struct lbt_mapping {
	__u64 start;
	__u64 end;
};

/* The lower end of a thread's own stack as far as it is known, by its tid in the initial namespace. */
struct lbt_own_stack {
	__u64 top;
	__u64 start;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, struct lbt_own_stack);
	__uint(max_entries, 16384);
} own_stacks SEC(".maps");

#ifndef LBT_EARLY
static long take_mapping(struct task_struct *task, struct vm_area_struct *vma, void *found)
{
	struct lbt_mapping *mapping = found;

	mapping->start = vma->vm_start;
	mapping->end = vma->vm_end;
	return 0;
}
#endif

/* Finds the mapping that holds an address (5.17); not 0 where that cannot be done now. */
static __always_inline long find_mapping(__u64 address, struct lbt_mapping *found)
{
#ifdef LBT_EARLY
	return -1;
#else
	return bpf_find_vma(bpf_get_current_task_btf(), address, take_mapping, found, 0);
#endif
}

/* The same where no mapping can be found: while another thread changes them, or before 5.17. */
static __always_inline __u64 likely_stack(__u64 pointer, __u64 top, __u32 tid)
{
	return top - pointer < LBT_FIRST_STACK ? 0 : LBT_UNKNOWN_STACK | tid << 1;
}

/*
 * Which stack a thread is on, by the start of the mapping that holds it, 0: its own one. Fibers have
 * mostly mappings of their own; of those that share one nothing tells here which it is. Odd where
 * that is not known.
 */
static __noinline __u64 other_stack(__u64 pointer, __u64 top)
{
	struct lbt_mapping found = {};
	struct lbt_own_stack *known, own = { .top = top };
	__u32 tid = bpf_get_current_pid_tgid();

	if (!config.finds_mappings)
		return likely_stack(pointer, top, tid);
	known = bpf_map_lookup_elem(&own_stacks, &tid);
	if (known && known->top == own.top && pointer < own.top && pointer >= known->start)
		return 0;
	if (find_mapping(pointer, &found))
		return likely_stack(pointer, top, tid);
	if (own.top - found.start >= found.end - found.start)
		return found.start;
	own.start = found.start;
	bpf_map_update_elem(&own_stacks, &tid, &own, 0);
	return 0;
}

/* The same of a hit, whose pointer is the upper end of its stack where nothing is on that. */
static __always_inline void find_stack(struct hit *at)
{
	const __u64 pointer = at->stack - 1;
	__u64 top;

	if (!config.stacks || at->goroutine || at->bits & LBT_ON_ALTSTACK)
		return;
	top = stack_top(at->pid == at->tid);
	if (top - pointer >= (top == first_top() ? LBT_SMALLEST_FIRST : LBT_SMALLEST_STACK))
		at->other = other_stack(pointer, top);
}

/* The stack pointer among the registers that the kernel keeps of a task, 0 if unreadable. */
static __always_inline __u64 stack_pointer_in(const struct pt_regs *registers)
{
	__u64 pointer = 0;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), &STACK_POINTER(registers));
	return pointer;
}

/* Where hooked calls return to, which lies in the place of their return addresses. */
static __always_inline __u64 trampoline_of_task(void)
{
#if defined(__TARGET_ARCH_x86)
	return bpf_get_current_task_btf()->mm->uprobes_state.xol_area->vaddr;
#else
	return 0; /* the link register may be anywhere */
#endif
}

/* Whether a function whose return is pending may still be on its stack. */
static __always_inline bool may_be_live(struct return_instance *pending, __u64 trampoline)
{
	__u64 there;

	return !trampoline ||
	       bpf_probe_read_user(&there, sizeof(there), (void *)pending->stack) ||
	       there == trampoline; /* else it was left */
}

/*
 * Hooking a return makes the kernel drop the pending ones whose stack pointers lie
 * below the present one, as if they had been left by longjmp (cleanup_return_instances()
 * in kernel/events/uprobes.c). In a signal handler on a stack above the one that it
 * interrupts, or in a fiber on such a stack, they are still in use, and their
 * functions would return to an address that nothing handles. Only sessions ask this (6.13).
 */
static __always_inline bool hook_drops_others(struct pt_regs *ctx)
{
	struct return_instance *pending = bpf_get_current_task_btf()->utask->return_instances;
	const __u64 stack = STACK_POINTER(ctx);
	__u64 trampoline;

	if (!pending || pending->stack >= stack)
		return false;
	/* Once: the verifier searches all types of the kernel at each visit (1 ms). */
	trampoline = trampoline_of_task();
	for (int i = 0; i < LBT_MAX_HOOKS; i++) {
		if (!pending || pending->stack >= stack)
			return false;
		if (may_be_live(pending, trampoline))
			return true;
		pending = pending->next;
	}
	return false;
}

/*
 * The trampoline to which a hooked call returns makes a system call on x86 (6.11). A tracer
 * of the task's system calls sees it. If it is emulated (PTRACE_SYSEMU) or dispatched to
 * the program itself (PR_SET_SYSCALL_USER_DISPATCH), it is not made, and the task continues
 * at an arbitrary address. Seccomp lets it pass.
 */
static __always_inline bool system_calls_are_watched(void)
{
#if defined(__TARGET_ARCH_x86)
	const unsigned long watched =
		1UL << bpf_core_enum_value(enum syscall_work_bit, SYSCALL_WORK_BIT_SYSCALL_TRACE) |
		1UL << bpf_core_enum_value(enum syscall_work_bit, SYSCALL_WORK_BIT_SYSCALL_EMU) |
		1UL << bpf_core_enum_value(enum syscall_work_bit,
					   SYSCALL_WORK_BIT_SYSCALL_USER_DISPATCH);

	return bpf_get_current_task_btf()->thread_info.syscall_work & watched;
#else
	return false;
#endif
}

LBT_VISITED_ONCE __u32 typed_hooks(void)
{
	return bpf_get_current_task_btf()->utask->depth;
}

/*
 * Whether the kernel will not hook a return, because so many are pending, of whatever tool
 * (prepare_uretprobe() in kernel/events/uprobes.c, which asks before it drops those that were
 * left).
 */
static __always_inline bool is_too_deep(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (config.typed_task)
		return typed_hooks() >= LBT_MAX_HOOKS;
	return BPF_CORE_READ(task, utask, depth) >= LBT_MAX_HOOKS;
}

/*
 * Whether a function jumps back to its first instruction, rather than is called: its return is
 * pending, and it would return to where hooked calls do. What a call wrote there is the program's.
 */
static __always_inline bool goes_round(struct pt_regs *ctx, const struct return_instance *pending)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);

	return BPF_CORE_READ(pending, func) == INSTRUCTION_POINTER(ctx) &&
	       return_address(ctx) == trampoline;
}

static __always_inline bool hook_harms(struct pt_regs *ctx)
{
	return system_calls_are_watched() || hook_drops_others(ctx);
}

#endif
