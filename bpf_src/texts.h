/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Copying strings and bytes into an event. */
#ifndef TEXTS_H
#define TEXTS_H

#include "event.h"
#include "fetch.h"
#include "unread_texts.h"

/*
 * The length of the string copied, or an error. The copy takes one byte more,
 * the NUL, to tell a full string from a cut one. Some kernels (6.1) say 0,
 * not 1, of an empty string.
 */
static __always_inline long read_string(const struct lbt_fetch *f, char *to, __u32 size,
					__u64 from)
{
	long got = copy_string(f, to, size + 1, from);

	return got > 0 ? got - 1 : got;
}

#define LBT_UNKNOWN (~0ULL)
#define LBT_PAGE 4096 /* or a part of one */

const __u32 the_only = 0;

/*
 * How much of a string follows its byte at an address, which has been read; or LBT_UNKNOWN: it is too
 * long, or some of it is unreadable. It is read in large pieces; where one cannot be, as far as the
 * next page ends, of which alone it is certain that it may be waited for. The bytes are not used, so
 * that all may be read into the same place. A function that is not static is verified once, not again
 * for each text; its callers leave it 32 bytes of the stack.
 */
__noinline __u64 rest_of_string(__u64 from)
{
	char *to = bpf_map_lookup_elem(&scratch, &the_only);
	__u64 at = from;
	__u32 piece;
	long got;

	if (!to)
		return LBT_UNKNOWN;
	for (int i = 0; i < LBT_PIECES; i++) {
		piece = LBT_PIECE;
		got = bpf_probe_read_user_str(to, LBT_PIECE, (const void *)at);
		if (got < 0) {
			if (config.may_fault)
				load_page(at + 1, to);
			/* at most a byte more than a page */
			piece = (((__u32)at + 1) | (LBT_PAGE - 1)) + 1 - (__u32)at;
			piece &= 2 * LBT_PAGE - 1;
			got = bpf_probe_read_user_str(to, piece, (const void *)at);
		}
		if (got < 0)
			return LBT_UNKNOWN;
		/* some kernels (6.1) say 0, not 1, of an empty string */
		at += got > 0 ? got - 1 : 0;
		if (got < piece)
			return at - from;
	}
	return LBT_UNKNOWN;
}

/* Copies a string or bytes to its chunk; value gets their number and the true length. */
static __always_inline long copy_text(const struct lbt_fetch *f, const __u64 *values,
				      char *to, const __u32 chunk, __u64 *value)
{
	__u64 from = *value;
	const __u32 many = N_VALUES;
	__u32 size = f->limit, slot = f->length_from;
	__u64 length;
	long got;

	if (size > chunk - 1)
		size = chunk - 1;
	if (f->read == LBT_STRING) {
		got = read_string(f, to, size, from);
		if (got < 0 && config.may_fault) {
			load_pages(from, size + 1);
			got = read_string(f, to, size, from);
		}
		length = got;
		if (got == size) {
			length = f->space == LBT_USER ? rest_of_string(from + size) : LBT_UNKNOWN;
			length = length > 0xffffffff ? length : length + size;
		}
	} else {
		length = slot < many ? values[slot] * f->scale : size;
		if (length < size)
			size = length;
		/* verifiers of kernels to 5.10 lose the bound in the comparison, and
		 * compilers leave out what they see no need for */
		barrier_var(size);
		size &= chunk - 1;
		got = read_memory(f, to, size, from) ? -1 : (long)size;
	}
	if (got < 0)
		return got;
	if (length > 0xffffffff)
		length = 0xffffffff;
	*value = length << 32 | (__u32)got;
	return 0;
}

static __always_inline void copy_texts(struct lbt_event *e, __u64 *values,
				       const __u32 chunk, const __u32 chunks,
				       const struct lbt_spec *spec)
{
	const __u32 many = N_VALUES;
	char *blob = (char *)(values + many) + sizeof(struct lbt_runner);

	for (int i = 0; i < chunks; i++) {
		__u64 slot = spec->text_slot[i];
		const struct lbt_fetch *f;
		__u64 value;

		if (slot >= many)
			break;
		/* the bound once more, for verifiers of 5.10 */
		barrier_var(slot);
		slot &= LBT_FETCHES - 1;
		f = &spec->fetch[slot];
		value = values[slot];
		if (e->faults >> slot & 1) {
			value = ~0ULL; /* there is no address */
		} else if (copy_text(f, values, blob + i * chunk, chunk, &value)) {
			e->faults |= 1 << slot;
			if (value >= 4096 && !f->optional) /* not a member of a null pointer */
				lose_text(e, f);
		} else if (!f->optional) {
			find_text(e, f);
		}
		values[slot] = value;
	}
	e->blob = chunk | spec->text_slots << 16;
}

#endif
