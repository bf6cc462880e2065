/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* The comparisons that must hold before an event is sent. */
#ifndef CONDITION_H
#define CONDITION_H

#include "fetch.h"

/*
 * A value by its slot. The stack is read at known places only, and without a
 * branch, from which the verifier would learn the slot.
 */
static __noinline __u64 select(const __u64 *values, __u32 wanted)
{
	__u64 v = 0;

	for (int slot = 0; slot < LBT_SLOTS; slot++) {
		__u64 distance = wanted ^ slot;

		asm volatile("" : "+r"(distance));
		v |= values[slot] & (__u64)((__s64)(distance - 1) >> 63);
	}
	return v;
}

/*
 * Whether the text a condition is about, at from and true_length long, is (0) or
 * is not (1) the one it names; 2: unreadable. It calls nothing, as the stack is
 * shared by all who wait for it.
 */
static __noinline __u32 compare_text(const struct lbt_condition *c, const struct lbt_spec *spec,
				     __u64 from, __u64 true_length)
{
	const struct lbt_text *wanted = &spec->text[(c->text - 1) & (LBT_TEXTS - 1)];
	const struct lbt_fetch *f = &spec->fetch[c->slot & (LBT_FETCHES - 1)];
	__u64 have[LBT_TEXT_WORDS + 1] = {}, different = spec->nothing;
	__u64 length = c->length;
	long error = spec->nothing;

	barrier_var(length); /* or the bound is found in a copy, and lost by 5.10 */
	if (length > LBT_TEXT_LIMIT)
		length = LBT_TEXT_LIMIT;
	if (c->slot == LBT_SLOT_COMM) {
		bpf_get_current_comm((char *)have, LBT_COMM);
	} else if (f->read == LBT_STRING) {
		/* one more than is wanted, and the NUL */
		error = bpf_probe_read_user_str(have, length + 2, (const void *)from);
		if (error < 0 && config.may_fault) {
			bpf_copy_from_user(have, 1, (const void *)from);
			error = bpf_probe_read_user_str(have, length + 2, (const void *)from);
		}
		error = error < 0;
	} else {
		if (true_length < length || (true_length > length && !c->prefix))
			return 1;
		if (length)
			error = read_user(have, length, from);
	}
	for (int i = 0; i < LBT_TEXT_WORDS; i++)
		different |= (have[i] ^ wanted->words[i]) & wanted->masks[i];
	return error ? 2 : different != 0;
}

/* Every group needs one comparison that holds. */
static __noinline bool passes(const struct lbt_spec *spec, const __u64 *values, __u32 faults)
{
	__u32 failing = spec->nothing, holding = spec->nothing;

	for (int i = 0; i < LBT_CONDITIONS; i++) {
		const struct lbt_condition *c = &spec->condition[i];
		__u64 v, operand = c->operand;
		__u32 relation, group;

		if (i >= spec->conditions)
			break;
		v = select(values, c->slot);
		if (config.compared_texts && c->text) {
			const struct lbt_fetch *f = &spec->fetch[c->slot & (LBT_FETCHES - 1)];
			__u64 length = f->limit;

			if (f->length_from < LBT_FETCHES)
				length = select(values, f->length_from);
			v = compare_text(c, spec, v, length);
		}
		/* turns a signed comparison into an unsigned one */
		v ^= (__u64)c->is_signed << 63;
		operand ^= (__u64)c->is_signed << 63;
		relation = v == operand ? LBT_EQUAL : v < operand ? LBT_LESS : LBT_GREATER;
		if (c->text && v == 2)
			relation = 0;
		group = 1 << (c->group & 31);
		if (c->relations & relation && !(faults >> (c->slot & 31) & 1))
			holding |= group;
		else
			failing |= group;
	}
	return !(failing & ~holding);
}

#endif
