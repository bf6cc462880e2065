/* What the readers of .eh_frame share: numbers, and how a caller's values are found. */
#ifndef LBT_UNWIND_STATE_H
#define LBT_UNWIND_STATE_H

#include <string.h>

#include "unwind_frames.h"

#define RBP 6 /* System V ABI for AMD64, figure 3.36 */
#define RSP 7
#define RIP 16

struct reader {
	const unsigned char *at, *end;
	int failed;
};
/* How one value of the caller is found. */
struct place {
	enum { SAME, AT_CFA, EXPRESSION, UNDEFINED, OTHER } how;
	int64_t offset;
	const unsigned char *expression;
	size_t size;
};

struct state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	const unsigned char *expression; /* of the CFA, or NULL */
	size_t size;
	struct place bp, ip;
};

static inline uint64_t fixed(struct reader *from, size_t size)
{
	uint64_t value = 0;

	if ((size_t)(from->end - from->at) < size) {
		from->failed = 1;
		return 0;
	}
	memcpy(&value, from->at, size);
	from->at += size;
	return value;
}

static inline uint64_t uleb(struct reader *from)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		const uint64_t byte = fixed(from, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static inline int64_t sleb(struct reader *from)
{
	uint64_t value = 0, byte;
	unsigned shift = 0;

	do {
		byte = fixed(from, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (byte & 0x40 && shift < 64)
		value |= ~0ULL << shift;
	return value;
}

/* The rule that holds in a state, in code that handles a signal or other code. */
struct lbt_unwind_rule lbt_rule_of(const struct state *state, int signal);

#endif
