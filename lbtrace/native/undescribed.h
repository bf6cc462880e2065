/* Where code ends that no symbol and no frame description is for. */
#ifndef LBT_UNDESCRIBED_H
#define LBT_UNDESCRIBED_H

#include "x86_64_kinds.h"

enum { UNDESCRIBED = 4096, TARGETS = 32 };

/* Whether one of the targets lies in the midst of what was read from one address to another. */
static inline int is_split(const uint64_t *targets, size_t count, uint64_t from, uint64_t to)
{
	for (size_t each = 0; each < count; each++)
		if (targets[each] > from && targets[each] < to)
			return 1;
	return 0;
}

/*
 * The size of code that nothing describes: up to an instruction that leads elsewhere, if no jump
 * before it leads beyond. Where jumps are computed, or lead into the midst of what was read, that is
 * not known: it is all, or too large.
 */
static inline uint64_t undescribed(const unsigned char *code, uint64_t size, uint64_t address,
				   uint64_t largest)
{
	uint64_t at = 0, furthest = 0, all = size > UNDESCRIBED ? largest + 1 : size;
	uint64_t targets[TARGETS];
	size_t count = 0;
	struct instruction i;

	while (at < size && at <= largest) {
		if (!lbt_read_instruction(code, size, at, address, &i) ||
		    i.flow == FLOW_JUMP_THROUGH)
			return all;
		if (is_split(targets, count, at, i.next - address))
			return all;
		at = i.next - address;
		if (i.flow == FLOW_JUMP || i.flow == FLOW_BRANCH) {
			uint64_t target = i.next + (uint64_t)i.immediate - address;

			if (target < size && target > furthest)
				furthest = target;
			if (target < size && target > at && count == TARGETS)
				return all;
			if (target < size && target > at)
				targets[count++] = target;
		}
		if (is_end(i.flow) && at > furthest)
			return at;
	}
	return all;
}

#endif
