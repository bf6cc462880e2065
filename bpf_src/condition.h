/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* The results that must hold before an event is sent. */
#ifndef CONDITION_H
#define CONDITION_H

#include "fetch.h"

/*
 * Whether the text that a condition of a spec is about, at from and true_length
 * long, is (0) or is not (1) the one it names; 2: unreadable, 3: a null pointer. A function that is
 * not static is verified once, not again for each condition; it may take numbers
 * only. It calls next to nothing, because its callers share the stack.
 */
__noinline __u64 compare_text(__u32 number, __u32 position, __u64 from, __u64 true_length)
{
	__u64 have[LBT_TEXT_WORDS + 1] = {}, different = 0, length;
	const struct lbt_spec *spec;
	const struct lbt_condition *c;
	const struct lbt_text *wanted;
	const struct lbt_fetch *f;
	long error = 0;

	if (!config.compared_texts)
		return 2;
	spec = bpf_map_lookup_elem(&specs, &number);
	if (!spec)
		return 2;
	c = &spec->condition[position & (LBT_CONDITIONS - 1)];
	wanted = &spec->text[(c->text - 1) & (LBT_TEXTS - 1)];
	f = &spec->fetch[c->slot & (LBT_FETCHES - 1)];
	length = c->length;
	barrier_var(length); /* or the compiler checks a copy, and 5.10 loses the bound */
	if (length > LBT_TEXT_LIMIT)
		length = LBT_TEXT_LIMIT;
	if (c->slot == LBT_SLOT_COMM) {
		bpf_get_current_comm((char *)have, LBT_COMM);
	} else if (f->read == LBT_STRING) {
		/* one more than is wanted, and the NUL */
		error = copy_string(f, have, length + 2, from);
		if (error < 0 && config.may_fault) {
			load_pages(from, length + 2);
			error = copy_string(f, have, length + 2, from);
		}
		error = error < 0;
	} else {
		true_length = not_negative(true_length);
		if (true_length < length || (true_length > length && !c->prefix))
			return 1;
		if (length)
			error = read_memory(f, have, length, from);
	}
	for (int i = 0; i < LBT_TEXT_WORDS; i++)
		different |= (have[i] ^ wanted->words[i]) & wanted->masks[i];
	if (error)
		return 2 + (from < LBT_LOWEST);
	return different != 0;
}

/*
 * The results of compare_text for the conditions of a spec: two bits each. They are
 * computed apart from the rest, because the stack does not suffice for calls within
 * calls. Conditions on texts come first.
 */
static __always_inline __u32 compare_texts(__u32 number, const struct lbt_spec *spec,
					   const __u64 *values)
{
	__u32 results = spec->opaque_zero;

	for (int i = 0; i < LBT_CONDITIONS; i++) {
		const struct lbt_condition *c = &spec->condition[i];
		const struct lbt_fetch *f = &spec->fetch[c->slot & (LBT_FETCHES - 1)];
		__u64 length, limit = f->limit;

		if (i >= spec->conditions || !c->text)
			break;
		/* one of the two is 0 */
		limit &= -(__u64)(f->length_from >> 7);
		length = select_slot(values, f->length_from) | limit;
		results |= compare_text(number, i, select_slot(values, c->slot), length) << 2 * i;
	}
	return results;
}

/*
 * Every group needs one comparison that holds. There are few branches, as the
 * verifier follows both sides of each, in every iteration.
 */
static __noinline bool passes(const struct lbt_spec *spec, const __u64 *values, __u32 faults,
			      __u32 results, const struct lbt_open_call *call)
{
	__u64 failing = spec->opaque_zero, holding = spec->opaque_zero;
	__u64 blocked = spec->opaque_zero, runnable = spec->opaque_zero;

	if (config.compares_off_cpu && call) {
		blocked |= call->off_cpu.blocked;
		runnable |= call->off_cpu.runnable;
	}

	for (int i = 0; i < LBT_CONDITIONS; i++) {
		const struct lbt_condition *c = &spec->condition[i];
		__u64 v, operand = c->operand, less, equal, holds;
		__u64 unreadable = faults >> (c->slot & 31), group;

		if (i >= spec->conditions)
			break;
		v = select_slot(values, c->slot);
		if (config.compares_off_cpu)
			v |= (blocked & is_same(c->slot, LBT_SLOT_BLOCKED)) |
			     (runnable & is_same(c->slot, LBT_SLOT_RUNNABLE));
		if (config.compared_texts && c->text) {
			v = results >> 2 * i & 3;
			unreadable |= v >> 1;
		}
		if (config.related && c->other) {
			operand = select_slot(values, c->other - 1);
			unreadable |= faults >> ((c->other - 1) & 31);
		}
		/* turns a signed comparison into an unsigned one */
		v ^= (__u64)c->is_signed << 63;
		operand ^= (__u64)c->is_signed << 63;
		barrier_var(v);
		barrier_var(operand);
		less = ((~v & operand) | ((~v | operand) & (v - operand))) >> 63;
		v ^= operand;
		equal = (~v & (v - 1)) >> 63;
		holds = c->relations;
		barrier_var(holds);
		holds &= less * LBT_LESS | equal * LBT_EQUAL | (1 ^ less ^ equal) * LBT_GREATER;
		holds = -holds >> 63 & ~unreadable & 1;
		group = 1ULL << (c->group & 31);
		holding |= group * holds;
		failing |= group * (1 ^ holds);
	}
	return !(failing & ~holding);
}

#endif
