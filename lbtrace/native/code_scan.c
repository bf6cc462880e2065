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

/* Whether mov register, rsp ends before code, at `from` in a section. */
static int keeps_stack_before(const unsigned char *code, size_t from)
{
	enum { SIZE = 3, WITHOUT_B = 0xfe, STORE = 0x89, FROM_STACK = 0x1c };

	return from >= SIZE && (code[-SIZE] & WITHOUT_B) == 0x48 && code[1 - SIZE] == STORE &&
	       code[2 - SIZE] >> 3 == FROM_STACK;
}

/*
 * REX.W, mov or xchg, ModRM: Intel SDM volume 2, 2.1.5, tables 2-2 and 2-4. The registers have the
 * bits that REX adds. What loads rsp by way of rbp, or with an index, is for stack_moves.h, but
 * where rsp is kept just before: a frame ends otherwise.
 */
static int loads_stack(const unsigned char *code, size_t from, size_t left)
{
	enum { B = 1, R = 4, STACK = 4, FRAME = 5, STORE = 0x89, LOAD = 0x8b, EXCHANGE = 0x87 };
	const int rex = code[0], opcode = code[1], is_memory = code[2] >> 6 != 3;
	const int reg = (code[2] >> 3 & 7) | (rex & R) << 1, rm = (code[2] & 7) | (rex & B) << 3;

	if ((rex & 0xf8) != 0x48 || (opcode != STORE && opcode != LOAD && opcode != EXCHANGE))
		return 0;
	if (!is_memory && opcode == EXCHANGE)
		return (reg == STACK) != (rm == STACK);
	if (!is_memory) {
		const int to = opcode == STORE ? rm : reg, by = opcode == STORE ? reg : rm;

		return to == STACK && by != STACK && (by != FRAME || keeps_stack_before(code, from));
	}
	if (reg != STACK || opcode == STORE)
		return 0;
	return opcode == EXCHANGE || rm != STACK || (left > 3 && (code[3] & 0x3f) == 0x24);
}

enum { STRIDE = 16 };
typedef unsigned char bytes __attribute__((vector_size(STRIDE)));

/* Whether none of 16 places may do. */
static int none_loads_stack(const unsigned char *code)
{
	bytes rex, move, operands;
	uint64_t found[2];

	memcpy(&rex, code, sizeof(rex));
	memcpy(&move, code + 1, sizeof(move));
	memcpy(&operands, code + 2, sizeof(operands));
	rex = (bytes)((rex & 0xf8) == 0x48);
	move = (bytes)((move == 0x89) | (move == 0x8b) | (move == 0x87));
	operands = (bytes)(((operands & 0x38) == 0x20) | ((operands & 0xc7) == 0xc4));
	rex &= move & operands;
	memcpy(found, &rex, sizeof(found));
	return !(found[0] | found[1]);
}

size_t lbt_next_stack_load(const unsigned char *code, size_t size, size_t from)
{
	while (size >= 3 && from <= size - 3) {
		if (size - from >= STRIDE + 2 && none_loads_stack(code + from))
			from += STRIDE;
		else if (loads_stack(code + from, from, size - from))
			return from;
		else
			from++;
	}
	return size;
}

/*
 * add and sub of an immediate, and of one, add and sub of an extended register, which set the
 * stack pointer: C4.1.65, C4.1.69. What moves it by an immediate does not count.
 */
static int sets_stack(uint32_t word)
{
	enum { SP = 31 };
	const int from_stack = (word >> 5 & SP) == SP;

	if ((word & SP) != SP)
		return 0;
	if ((word & 0xbf800000) == 0x91000000 || (word & 0xff800000) == 0x92000000)
		return !from_stack;
	return (word & 0xbfe00000) == 0x8b200000;
}

size_t lbt_next_stack_word(const unsigned char *code, size_t size, size_t from)
{
	enum { WORD = 4 };

	for (from += (WORD - from % WORD) % WORD; size >= WORD && from <= size - WORD; from += WORD) {
		uint32_t word;

		memcpy(&word, code + from, sizeof(word));
		if (sets_stack(word))
			return from;
	}
	return size;
}
