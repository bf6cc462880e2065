/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* What expressions compute with two numbers. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "state.h"

/*
 * Functions that are not static are verified once, not again for each value: they take numbers only.
 * Without computing, the verifier sees nothing of them.
 */

/*
 * 1 where an operation on numbers of so many bytes has no result by its right operand; counts it, but
 * not of 0 bytes: there that is how an index is compared.
 */
__noinline __u64 is_undefined(__u32 operation, __u32 size, __u64 right)
{
	bool undefined = false;

	if (!config.computing)
		return 0;
	if (operation >= LBT_DIVIDE)
		undefined = !right;
	else if (operation >= LBT_SHIFT_LEFT)
		undefined = right >= (__u64)size * 8;
	if (undefined && size)
		increment(LBT_UNCOMPUTED);
	return undefined;
}

/* All bits of a negative number, or none. */
static __always_inline __u64 sign_of(__u64 number)
{
	return (__s64)number >> 63;
}

/* A number without its sign; the signs are those of sign_of. */
static __always_inline __u64 with_sign(__u64 number, __u64 sign)
{
	return (number ^ sign) - sign;
}

/* The result of an operation that has one. BPF divides numbers without signs, before version 4. */
__noinline __u64 operate(__u32 operation, __u64 left, __u64 right)
{
	__u64 one, other;

	if (!config.computing)
		return 0;
	one = with_sign(left, sign_of(left));
	other = with_sign(right, sign_of(right));
	switch (operation) {
	case LBT_AND:
		return left & right;
	case LBT_OR:
		return left | right;
	case LBT_XOR:
		return left ^ right;
	case LBT_MULTIPLY:
		return left * right;
	case LBT_SHIFT_LEFT:
		return left << (right & 63);
	case LBT_SHIFT_RIGHT:
		return left >> (right & 63);
	case LBT_SHIFT_RIGHT_SIGNED:
		return (__s64)left >> (right & 63);
	case LBT_DIVIDE:
		return left / right;
	case LBT_DIVIDE_SIGNED:
		return with_sign(one / other, sign_of(left ^ right));
	case LBT_REMAINDER:
		return left % right;
	case LBT_REMAINDER_SIGNED:
		return with_sign(one % other, sign_of(left));
	}
	return 0;
}

#endif
