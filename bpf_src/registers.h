/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * The registers with a part of their own, of each machine.
 */
#ifndef REGISTERS_H
#define REGISTERS_H

#include "state.h"

#if defined(__TARGET_ARCH_x86)

/* A call has pushed the return address; a return has popped it. */
#define LBT_RETURN_SLOT 8

#define ARGUMENT0(r) ((r)->di)
#define ARGUMENT1(r) ((r)->si)
#define ARGUMENT2(r) ((r)->dx)
#define ARGUMENT3(r) ((r)->cx)
#define ARGUMENT4(r) ((r)->r8)
#define ARGUMENT5(r) ((r)->r9)
#define RESULT0(r) ((r)->ax)
#define RESULT1(r) ((r)->dx)
#define STACK_POINTER(r) ((r)->sp)
#define INSTRUCTION_POINTER(r) ((r)->ip)

/* sign is bit 7, overflow bit 11: arch/x86/include/uapi/asm/processor-flags.h */
#define FLAGS(r) ((r)->flags | (((r)->flags >> 7 ^ (r)->flags >> 11) & 1 ? LBT_FLAG_LESS : 0))
#define GO_REGISTER(r) ((r)->r14)

/* The system call that a task makes by its registers, negative: none. Programs of 32 bits number them
 * otherwise. */
#define SYSCALL_NUMBER(r) (((struct pt_regs___call *)(r))->orig_ax)
#define LBT_32_BIT(task) ((task)->thread_info.status & 2) /* TS_COMPAT */
#define LBT_EXECUTES(number) ((number) == 59 || (number) == 322) /* execve, execveat */
/* clone, fork, vfork, execve, clone3: what they begin leaves the call, too. */
#define LBT_BEGINS(number) (((number) >= 56 && (number) <= 59) || (number) == 435)
#define LBT_CONFINES(number) ((number) == 157 || (number) == 317) /* prctl, seccomp */
#define LBT_RESULT_APART 1 /* from the arguments of a system call */
#define EACH_REGISTER(X)                                                                           \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)      \
	X(16) X(17) X(18) X(19)

/* Where a function returns to that begins with these registers, 0 where that is unreadable. */
static __always_inline __u64 return_address(struct pt_regs *ctx)
{
	__u64 there;

	return bpf_probe_read_user(&there, sizeof(there), (void *)ctx->sp) ? 0 : there;
}

static __always_inline __u64 thread_pointer(void)
{
	if (config.typed_task)
		return bpf_get_current_task_btf()->thread.fsbase;
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), thread.fsbase);
}

#elif defined(__TARGET_ARCH_arm64)

#define LBT_RETURN_SLOT 0 /* the return address is in x30 */

#define ARGUMENT0(r) ((r)->user_regs.regs[0])
#define ARGUMENT1(r) ((r)->user_regs.regs[1])
#define ARGUMENT2(r) ((r)->user_regs.regs[2])
#define ARGUMENT3(r) ((r)->user_regs.regs[3])
#define ARGUMENT4(r) ((r)->user_regs.regs[4])
#define ARGUMENT5(r) ((r)->user_regs.regs[5])
#define RESULT0(r) ((r)->user_regs.regs[0])
#define RESULT1(r) ((r)->user_regs.regs[1])
#define STACK_POINTER(r) ((r)->user_regs.sp)
#define INSTRUCTION_POINTER(r) ((r)->user_regs.pc)

/* N, Z, C, V are bits 31 to 28: arch/arm64/include/uapi/asm/ptrace.h */
#define FLAGS(r)                                                                                   \
	((((r)->user_regs.pstate >> 28) & 15) << 28 |                                              \
	 (((r)->user_regs.pstate >> 31 ^ (r)->user_regs.pstate >> 28) & 1 ? LBT_FLAG_LESS : 0) |   \
	 ((r)->user_regs.pstate >> 29 & 1 ? 0 : LBT_FLAG_NO_CARRY))
#define GO_REGISTER(r) ((r)->user_regs.regs[28])
#define SYSCALL_NUMBER(r) (((struct pt_regs___call *)(r))->syscallno)
#define LBT_32_BIT(task) ((task)->thread_info.flags >> 22 & 1) /* TIF_32BIT */
#define LBT_EXECUTES(number) ((number) == 221 || (number) == 281)
#define LBT_BEGINS(number) ((number) == 220 || (number) == 221 || (number) == 435)
#define LBT_CONFINES(number) ((number) == 167 || (number) == 277)
#define LBT_RESULT_APART 0 /* it replaces the first one */
#define EACH_REGISTER(X)                                                                           \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)      \
	X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30)  \
	X(31) X(32)

static __always_inline __u64 return_address(struct pt_regs *ctx)
{
	return ctx->user_regs.regs[30];
}

static __always_inline __u64 thread_pointer(void)
{
	if (config.typed_task)
		return bpf_get_current_task_btf()->thread.uw.tp_value;
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), thread.uw.tp_value);
}

#endif

/* The same of a call with this frame, where it jumps away or begins. */
static __always_inline __u64 caller_of(struct pt_regs *ctx, __u64 frame)
{
	__u64 there;

	if (!LBT_RETURN_SLOT)
		return return_address(ctx);
	return bpf_probe_read_user(&there, sizeof(there), (void *)frame) ? 0 : there;
}

/*
 * Keeps the compiler from merging what differs in the registers read only: the
 * verifier takes no computed offset into the context.
 */
#define APART(value, number) asm volatile("" : "+r"(value) : "i"(number))

/*
 * A register by its place. The kernel's helper that reads any costs five times as much; the
 * verifier takes known places in the context only.
 */
static __always_inline __u64 select_register(struct pt_regs *ctx, __u32 place)
{
#define PICK(number)                                                                               \
	case number:                                                                               \
		v = ((__u64 *)ctx)[number];                                                        \
		APART(v, 16 + number);                                                             \
		return v;
	__u64 v;

	switch (place) {
		EACH_REGISTER(PICK)
	}
#undef PICK
	return 0;
}

LBT_VISITED_ONCE __u64 typed_first_top(void)
{
	return bpf_get_current_task_btf()->mm->start_stack;
}

/* The top of the stack with which the current process's program has begun. */
static __always_inline __u64 first_top(void)
{
	if (config.typed_task)
		return typed_first_top();
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), mm, start_stack);
}

#endif
