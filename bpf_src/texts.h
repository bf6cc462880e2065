/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Reading strings and bytes. */
#ifndef TEXTS_H
#define TEXTS_H

#include "fetch.h"

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
				load_page(at + 1, (__u64 *)to);
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

/*
 * Whether the texts of a hit are short, though they may be long: large chunks take up to 32 KB of the
 * ring each time. A string that is not in memory yet may be long. Its callers leave it 32 bytes of the
 * stack, and it calls nothing, which would take as much.
 */
static __noinline bool are_short(const struct lbt_spec *spec, const __u64 *values, __u32 faults)
{
	const __u32 many = N_VALUES, texts = spec->text_slots & ~faults;
	char *to = bpf_map_lookup_elem(&scratch, &the_only);
	long got;

	if (!to)
		return false;
	for (int i = 0; i < LBT_FETCHES && i < many; i++) {
		const struct lbt_fetch *f = &spec->fetch[i];

		if (!(texts >> i & 1) || f->limit < LBT_SMALL_CHUNK)
			continue;
		if (f->read == LBT_STRING) {
			got = copy_string_here(f, to, LBT_SMALL_CHUNK, values[i]);
			if (got >= LBT_SMALL_CHUNK || (got < 0 && config.may_fault))
				return false;
			continue;
		}
		if (f->length_from >= many)
			return false;
		if (select_fetched(values, f->length_from) * f->scale >= LBT_SMALL_CHUNK)
			return false;
	}
	return true;
}

/* Whether nothing is there, not even nothing: no bytes of the program's may lie at a null pointer. */
static __always_inline bool is_null(__u64 from)
{
#ifdef LBT_ATOMIC
	return from < LBT_LOWEST;
#else
	return false;
#endif
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
		/* what need not be an address is most often a small number */
		if (f->optional && from < LBT_LOWEST_PAGE)
			return -1;
		got = read_string(f, to, size, from);
		if (got < 0 && config.may_fault) {
			load_pages(from, size + 1);
			got = read_string(f, to, size, from);
		}
		length = got;
		if (got == size) {
			length = f->space == LBT_USER && f->scale ? rest_of_string(from + size) : LBT_UNKNOWN;
			length = length > 0xffffffff ? length : length + size;
		}
	} else {
		length = slot < many ? values[slot] * f->scale : size;
		length = not_negative(length);
		if (length < size)
			size = length;
		/* verifiers of kernels to 5.10 lose the bound in the comparison, and
		 * compilers leave out what they see no need for */
		barrier_var(size);
		size &= chunk - 1;
		got = read_memory(f, to, size, from) || is_null(from) ? -1 : (long)size;
	}
	if (got < 0)
		return got;
	if (length > 0xffffffff)
		length = 0xffffffff;
	*value = length << 32 | (__u32)got;
	return 0;
}

#endif
