/* What is looked for in all code: see code_scan.h. */
#include "code_scan.h"

#include <string.h>

enum { CALL = 0xe8, CALL_SIZE = 5 };

static int is_among(const uint64_t *targets, size_t count, uint64_t address)
{
	size_t low = 0;

	while (count) {
		size_t half = count / 2;

		if (targets[low + half] < address) {
			low += half + 1;
			count -= half + 1;
		} else if (targets[low + half] == address) {
			return 1;
		} else {
			count = half;
		}
	}
	return 0;
}

size_t lbt_next_call(const unsigned char *code, size_t size, size_t from, uint64_t address,
		     const uint64_t *targets, size_t count)
{
	if (!count || size < CALL_SIZE)
		return size;
	while (from <= size - CALL_SIZE) {
		const unsigned char *found =
			memchr(code + from, CALL, size - CALL_SIZE + 1 - from);
		int32_t distance;
		uint64_t target;

		if (!found)
			return size;
		from = (size_t)(found - code);
		memcpy(&distance, found + 1, sizeof(distance));
		target = address + from + CALL_SIZE + (uint64_t)(int64_t)distance;
		if (target >= targets[0] && target <= targets[count - 1] &&
		    is_among(targets, count, target))
			return from;
		from++;
	}
	return size;
}

size_t lbt_next_link(const unsigned char *code, size_t size, size_t from, uint64_t address,
		     const uint64_t *targets, size_t count)
{
	enum { WORD = 4, BL = 0x25 }; /* Arm Architecture Reference Manual, C4.1.66 */

	for (from += (WORD - from % WORD) % WORD; size >= WORD && from <= size - WORD; from += WORD) {
		uint32_t word;
		uint64_t distance;

		memcpy(&word, code + from, sizeof(word));
		if (word >> 26 != BL)
			continue;
		distance = ((uint64_t)(word & 0x3ffffff) ^ 0x2000000) - 0x2000000;
		if (is_among(targets, count, address + from + WORD * distance))
			return from;
	}
	return size;
}

/* The bytes of a jump's opcode, and of its distance; none of other instructions. */
static size_t jump_opcode(const unsigned char *code, size_t left, size_t *distance)
{
	*distance = 4;
	if (code[0] == 0xe9)
		return 1;
	if (code[0] == 0x0f)
		return left > 1 && (code[1] & 0xf0) == 0x80 ? 2 : 0;
	*distance = 1;
	return (code[0] & 0xf0) == 0x70 || (code[0] & 0xfc) == 0xe0 || code[0] == 0xeb;
}

size_t lbt_next_jump(const unsigned char *code, size_t size, size_t from, uint64_t address,
		     uint64_t low, uint64_t high)
{
	for (; from < size; from++) {
		size_t wide, opcode = jump_opcode(code + from, size - from, &wide);
		int32_t far;
		uint64_t target = address + from + opcode + wide;

		if (!opcode || size - from < opcode + wide)
			continue;
		if (wide == 1) {
			target += (uint64_t)(int64_t)(int8_t)code[from + opcode];
		} else {
			memcpy(&far, code + from + opcode, sizeof(far));
			target += (uint64_t)(int64_t)far;
		}
		if (target >= low && target < high)
			return from;
	}
	return size;
}
