/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Getting values out of registers and memory. */
#ifndef FETCH_H
#define FETCH_H

#include "operations.h"
#include "registers.h"
#include "waiting.h"

/*
 * What follows is written for the verifier, too. The verifier walks each path through
 * a loop whose known state differs from those it has walked. So branches
 * are arithmetic where possible, zeros are loaded so that they are unknown to it,
 * and a text's place after the event does not depend on the texts before it.
 */

/* Reads memory of the process; waits for a page that is not loaded yet only if it may. */
static __always_inline long read_user(void *to, __u32 size, __u64 from)
{
	long error = bpf_probe_read_user(to, size, (const void *)from);

	if (error && config.may_fault) {
		load_pages(from, size);
		error = bpf_probe_read_user(to, size, (const void *)from);
	}
	return error;
}

/* The memory that a fetch reads. Python's `Fetch.space` is the name in small letters. */
enum lbt_space {
	LBT_USER = 0, /* of the process */
	LBT_KERNEL = 1, /* only in programs that may not sleep */
	LBT_EITHER = 2, /* the same: which of both the address says, whose highest bit is the kernel's */
};

#ifdef LBT_ATOMIC
/* Whether a fetch reads the kernel's memory at an address. */
static __always_inline bool is_in_kernel(const struct lbt_fetch *f, __u64 from)
{
	return f->space == LBT_KERNEL || (f->space == LBT_EITHER && (__s64)from < 0);
}

/* Reads memory of a space. Functions of their own: the programs have little room on the stack. */
static __noinline long read_memory(const struct lbt_fetch *f, void *to, __u32 size, __u64 from)
{
	if (is_in_kernel(f, from))
		return bpf_probe_read_kernel(to, size, (const void *)from);
	return bpf_probe_read_user(to, size, (const void *)from);
}

/* The same of a string: how many bytes it takes with its NUL, or an error. */
static __always_inline long copy_string_here(const struct lbt_fetch *f, void *to, __u32 size,
					     __u64 from)
{
	if (is_in_kernel(f, from))
		return bpf_probe_read_kernel_str(to, size, (const void *)from);
	return bpf_probe_read_user_str(to, size, (const void *)from);
}

static __noinline long copy_string(const struct lbt_fetch *f, void *to, __u32 size, __u64 from)
{
	return copy_string_here(f, to, size, from);
}
#else
/* Reads memory of a space: there is one where programs may sleep. */
static __always_inline long read_memory(const struct lbt_fetch *f, void *to, __u32 size, __u64 from)
{
	return read_user(to, size, from);
}

/* The same of a string: how many bytes it takes with its NUL, or an error. Waits for nothing. */
static __always_inline long copy_string(const struct lbt_fetch *f, void *to, __u32 size, __u64 from)
{
	return bpf_probe_read_user_str(to, size, (const void *)from);
}
#define copy_string_here copy_string
#endif

/* The number of values of a probe in this load of the programs; the verifier knows it. */
#define N_VALUES (config.wide ? LBT_FETCHES : LBT_VALUES)

/* All bits for equal numbers, or none; without a branch, from which the verifier would learn them. */
static __always_inline __u64 is_same(__u32 one, __u32 other)
{
	__u64 distance = one ^ other;

	asm volatile("" : "+r"(distance));
	return (__s64)(distance - 1) >> 63;
}

/* A fetched value by its slot. The stack is read at known places only. */
static __always_inline __u64 select_fetched(const __u64 *values, __u32 wanted)
{
	const __u32 many = N_VALUES;
	__u64 v = 0;

	for (__u32 slot = 0; slot < LBT_FETCHES && slot < many; slot++)
		v |= values[slot] & is_same(wanted, slot);
	return v;
}

/*
 * The same of those, too, that are not fetched. There is no loop: in one that is called from several
 * depths the verifier of 5.10.223 follows a null pointer (__mark_chain_precision() in
 * kernel/bpf/verifier.c), and the kernel panics.
 */
static __noinline __u64 select_slot(const __u64 *values, __u32 wanted)
{
	__u64 v = 0;

#pragma clang loop unroll(full)
	for (__u32 slot = 0; slot < LBT_SLOTS; slot++) {
		v |= values[slot] & is_same(wanted, slot);
		barrier_var(v); /* one after the other, for which registers suffice */
	}
	return v;
}

/*
 * Combines a value with the operand as the fetch says; not 0 where that has no result. It is static
 * for its pointers, the rest is verified once.
 */
static __noinline long combine(const struct lbt_fetch *f, const __u64 *values, __u64 *value)
{
	__u64 operand = f->operand;

	if (f->plus)
		operand = select_slot(values, f->plus - 1);
	*value = operate(f->operation, *value, operand);
	return is_undefined(f->operation, f->size, operand);
}

/* A length, if it is one: where a system call or a function of the kernel fails, it is an error. */
static __always_inline __u64 not_negative(__u64 length)
{
#ifdef LBT_ATOMIC
	length &= ~(__u64)((__s64)length >> 63);
#endif
	return length;
}

#define LBT_LOWEST 4096 /* nothing is mapped below: there lead null pointers */
#define LBT_LOWEST_PAGE 65536 /* nor, as a rule, here: vm.mmap_min_addr */

/* The address or value a fetch leads to, before its last step. */
static __always_inline long resolve(const struct lbt_fetch *f, struct pt_regs *ctx, __u64 frame,
				    __u64 record, __u64 opaque_zero, const __u64 *values, __u32 faults,
				    __u64 *value)
{
	__u64 v = opaque_zero;
	long error = opaque_zero;

	if (f->base == LBT_REGISTER)
		bpf_probe_read_kernel(&v, sizeof(v), (__u64 *)ctx + (f->reg & 63));
	else if (f->base == LBT_STACK)
		v = frame;
#ifdef LBT_ATOMIC
	else if (f->base == LBT_RECORD)
		v = record;
#endif
	if (config.related) {
		if (f->base == LBT_SLOT) {
			v = select_slot(values, f->reg);
			error |= faults >> (f->reg & 31) & 1;
		} else if (f->base == LBT_THREAD) {
			v = thread_pointer();
		}
		if (config.computing && f->operation)
			error |= combine(f, values, &v);
		else if (f->plus)
			v += select_slot(values, f->plus - 1) * f->factor;
		if (f->plus)
			error |= faults >> ((f->plus - 1) & 31) & 1;
	}
	v += f->offset;
	for (int i = 0; i < LBT_DEREFS; i++) {
		if (i >= f->derefs)
			break;
		/* a null pointer: the page fault would cost more than the rest of a hit */
		if (v < LBT_LOWEST) {
			error = 1;
			break;
		}
		error |= read_memory(f, &v, sizeof(v), v);
		v += f->deref[i];
	}
	*value = v;
	return error;
}

static __always_inline long fetch(const struct lbt_fetch *f, struct pt_regs *ctx, __u64 frame,
				  __u64 record, __u64 opaque_zero, const __u64 *values, __u32 faults, __u64 *value)
{
	long error = resolve(f, ctx, frame, record, opaque_zero, values, faults, value);

	if (f->read == LBT_INTEGER) {
		__u32 size = f->size;
		__u64 v = 0;

		if (size > sizeof(v))
			size = sizeof(v);
		if (*value < LBT_LOWEST)
			error = 1;
		else
			error |= read_memory(f, &v, size, *value);
		*value = v;
	}
	*value <<= f->left & 63;
	*value = f->is_signed ? (__u64)((__s64)*value >> (f->right & 63)) : *value >> (f->right & 63);
	return error;
}

#endif
