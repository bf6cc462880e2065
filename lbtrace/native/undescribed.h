/* Where code ends that no symbol and no frame description is for. */
#ifndef LBT_UNDESCRIBED_H
#define LBT_UNDESCRIBED_H

#include "x86_64_kinds.h"

enum { UNDESCRIBED = 4096 };

/*
 * The size of code that nothing describes: up to an instruction that leads elsewhere, if no jump
 * before it leads beyond. Where jumps are computed that is not known: it is all, or too large.
 */
static inline uint64_t undescribed(const unsigned char *code, uint64_t size, uint64_t address,
				   uint64_t largest)
{
	uint64_t at = 0, furthest = 0, all = size > UNDESCRIBED ? largest + 1 : size;
	struct instruction i;

	while (at < size && at <= largest) {
		if (!lbt_read_instruction(code, size, at, address, &i) ||
		    i.flow == FLOW_JUMP_THROUGH)
			return all;
		at = i.next - address;
		if (i.flow == FLOW_JUMP || i.flow == FLOW_BRANCH) {
			uint64_t target = i.next + (uint64_t)i.immediate - address;

			if (target < size && target > furthest)
				furthest = target;
		}
		if (is_end(i.flow) && at > furthest)
			return at;
	}
	return all;
}

#endif
