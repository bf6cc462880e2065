/* What is looked for in all code: see code_scan.h. */
#define _GNU_SOURCE /* memmem */
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

/* Intel SDM volume 2, JMP and Jcc. */
size_t lbt_next_jump(const unsigned char *code, size_t size, size_t from, uint64_t address,
		     const uint64_t *targets, size_t count)
{
	enum { JMP = 0xe9, JMP_SHORT = 0xeb, JCC_SHORT = 0x70, TWO_BYTES = 0x0f, JCC = 0x80 };
	static const uint8_t is_jump[256] = { /* which may begin one */
		[TWO_BYTES] = 1, [JCC_SHORT ... JCC_SHORT + 15] = 1, [JMP] = 1, [JMP_SHORT] = 1,
	};

	for (; count && from < size; from++) {
		if (!is_jump[code[from]])
			continue;
		int is_two = code[from] == TWO_BYTES && size - from > 1 && code[from + 1] >> 4 == JCC >> 4;
		int is_short = code[from] == JMP_SHORT || code[from] >> 4 == JCC_SHORT >> 4;
		size_t at = from + 1 + (size_t)is_two;
		size_t width = is_short ? sizeof(int8_t) : sizeof(int32_t);
		int32_t distance;
		uint64_t target;

		if (!(is_two || is_short || code[from] == JMP) || size - at < width)
			continue;
		if (is_short)
			distance = (int8_t)code[at];
		else
			memcpy(&distance, code + at, sizeof(distance));
		target = address + at + width + (uint64_t)(int64_t)distance;
		if (target >= targets[0] && target <= targets[count - 1] &&
		    is_among(targets, count, target))
			return from;
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

size_t lbt_next_bytes(const unsigned char *code, size_t size, size_t from,
		      const unsigned char *wanted, size_t count)
{
	const unsigned char *found =
		from <= size ? memmem(code + from, size - from, wanted, count) : NULL;

	return found ? (size_t)(found - code) : size;
}
