/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * The registers of each machine, in the order of REGISTERS in
 * lbtrace/bpf/specs.py.
 */
#ifndef REGISTERS_H
#define REGISTERS_H

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
#define GO_REGISTER(r) ((r)->r14)

static __always_inline __u64 thread_pointer(void)
{
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), thread.fsbase);
}

static __always_inline __u64 read_register(const struct pt_regs *r, __u32 number)
{
	switch (number) {
	case 0: return r->di;
	case 1: return r->si;
	case 2: return r->dx;
	case 3: return r->cx;
	case 4: return r->r8;
	case 5: return r->r9;
	case 6: return r->ax;
	case 7: return r->bx;
	case 8: return r->bp;
	case 9: return r->sp;
	case 10: return r->r10;
	case 11: return r->r11;
	case 12: return r->r12;
	case 13: return r->r13;
	case 14: return r->r14;
	case 15: return r->r15;
	case 16: return r->ip;
	}
	return 0;
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
#define GO_REGISTER(r) ((r)->user_regs.regs[28])

static __always_inline __u64 thread_pointer(void)
{
	return 0; /* Go on arm64 has always kept g in its register */
}

#define R(n) case n: return r->user_regs.regs[n]
static __always_inline __u64 read_register(const struct pt_regs *r, __u32 number)
{
	switch (number) {
	R(0); R(1); R(2); R(3); R(4); R(5); R(6); R(7);
	R(8); R(9); R(10); R(11); R(12); R(13); R(14); R(15);
	R(16); R(17); R(18); R(19); R(20); R(21); R(22); R(23);
	R(24); R(25); R(26); R(27); R(28); R(29); R(30);
	case 31: return r->user_regs.sp;
	case 32: return r->user_regs.pc;
	}
	return 0;
}
#undef R

#endif
#endif
