/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* How long strings in memory are. */
#ifndef STRING_LENGTH_H
#define STRING_LENGTH_H

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

#endif
