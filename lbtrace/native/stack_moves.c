/* Other ways to take up a stack: see stack_moves.h. */
#include "stack_moves.h"

#include <string.h>

#include "x86_64_kinds.h"

enum { LOOK_AHEAD = 24, REX_B = 1, REX_R = 4, REX_W = 8 };
enum way { NO_WAY, TO_STACK, TO_FRAME, BY_POP };

enum { STRIDE = 16 };
typedef unsigned char bytes __attribute__((vector_size(STRIDE)));

/*
 * What an instruction with REX.W sets, by its first bytes: Intel SDM volume 2, tables 2-2 to 2-4.
 * For rsp, plain moves of registers are left out, and of memory by a base alone.
 */
static enum way sets(const unsigned char *code)
{
	int rex = code[0], long_opcode = code[1] == 0x0f, opcode = code[1 + long_opcode];
	int modrm = code[2 + long_opcode], mode = modrm >> 6;
	int reg = modrm >> 3 & 7, rm = modrm & 7;
	int to_reg = rex & REX_R ? NO_REGISTER : reg;
	int to_rm = mode != 3 || rex & REX_B ? NO_REGISTER : rm;
	int indexed = mode != 3 && rm == RSP;
	int base = rex & REX_B ? NO_REGISTER : indexed ? code[3 + long_opcode] & 7 : rm;
	int framed = mode != 3 && base == RSP && (!indexed || (code[3] >> 3 & 7) == RSP);

	if (long_opcode && (opcode & 0xf0) == 0x40)
		return to_reg == RSP ? TO_STACK : NO_WAY;
	if (long_opcode)
		return opcode == 0xc1 && (to_reg == RSP || to_rm == RSP) ? TO_STACK : NO_WAY;
	switch (opcode) {
	case 0x01: case 0x29:
		return to_rm == RSP ? TO_STACK : NO_WAY;
	case 0x03: case 0x2b:
		return to_reg == RSP ? TO_STACK : NO_WAY;
	case 0x94:
		return TO_STACK;
	case 0x89:
		return to_rm == RBP && (reg != RSP || rex & REX_R) ? TO_FRAME : NO_WAY;
	case 0x8b:
		if (to_reg == RSP && indexed && !framed)
			return TO_STACK;
		return to_reg == RBP && mode != 3 && !framed ? TO_FRAME : NO_WAY;
	case 0x8d:
		if (mode == 3 || framed)
			return NO_WAY;
		return to_reg == RSP && (base != RBP || (indexed && mode == 0)) ? TO_STACK
			: to_reg == RBP ? TO_FRAME : NO_WAY;
	}
	return NO_WAY;
}

/* Whether an instruction sets rsp to what rbp holds. */
static int takes_frame(const struct instruction *i)
{
	if (i->flow == FLOW_STACK)
		return !i->extended && i->opcode == 0xc9;
	if (i->first != RSP || i->extended)
		return 0;
	return (is_moved(i) && second_register(i) == RBP) || (i->opcode == 0x8d && i->base == RBP);
}

/* Whether an instruction sets rsp anew, rather than to move it on. */
static int sets_anew(const struct instruction *i)
{
	if (takes_frame(i))
		return 1;
	return i->first == RSP && !i->extended &&
	       (is_moved(i) || (i->opcode == 0x8d && i->base != RSP));
}

/* Whether an instruction with REX.W adds to a register, or subtracts, what another holds. */
static int is_shift(const unsigned char *code)
{
	return code[1] == 0x01 || code[1] == 0x29 || code[1] == 0x03 || code[1] == 0x2b ||
	       (code[1] == 0x0f && code[2] == 0xc1);
}

/*
 * Whether code leads on from an instruction, by way of rsp, to one that leaves: straight after what
 * adds to rsp, as what makes room for an array does, else also by jumps, past branches and calls.
 */
static int leads_away(const unsigned char *code, size_t size, size_t at, enum way way)
{
	int shifts = size - at > 2 && is_shift(code + at);

	for (int passed = 0; passed <= LOOK_AHEAD && at < size; passed++) {
		struct instruction i;

		if (!lbt_read_instruction(code, size, at, 0, &i))
			return way != BY_POP; /* left to a full decoder, but for a byte alone */
		at = (size_t)i.next;
		if (!passed)
			continue;
		if (i.flow == FLOW_RETURN || i.flow == FLOW_JUMP_THROUGH ||
		    i.flow == FLOW_CALL_THROUGH)
			return way == TO_STACK || (way == BY_POP && i.flow != FLOW_CALL_THROUGH);
		if (i.flow == FLOW_JUMP && !shifts && way != TO_FRAME) {
			at += (size_t)i.immediate; /* where there is nothing, nothing is read */
			continue;
		}
		if (!is_plain(i.flow) && (shifts || way == TO_FRAME ||
					  (i.flow != FLOW_BRANCH && i.flow != FLOW_CALL)))
			return 0;
		if (way == TO_FRAME && takes_frame(&i))
			way = TO_STACK;
		else if (way == TO_FRAME ? i.first == RBP && !is_compared(&i) && !is_immediate(&i)
					 : sets_anew(&i))
			return 0;
	}
	return 0;
}

/* Whether rsp and rbp are moved by the same distance, as greenlet does in the midst of a function. */
static int moves_both(const unsigned char *code, size_t size)
{
	return size >= 6 && code[1] == 0x01 && (code[2] & 0xc7) == 0xc4 && code[3] == code[0] &&
	       code[4] == 0x01 && code[5] == code[2] + 1;
}

/* POP of rsp: but for what is most of it, the second byte of pop r12, or a ModRM byte. */
static int pops(const unsigned char *code, size_t size, size_t at)
{
	if (code[at] == 0x8f)
		return at + 1 < size && code[at + 1] == 0xc4 && !(at && (code[at - 1] & 0xf1) == 0x41);
	return code[at] == 0x5c && (at + 1 == size || code[at + 1] != 0x24) &&
	       !(at && (code[at - 1] & 0xf1) == 0x41);
}

/* Whether none of 16 places may do. */
static int none_moves(const unsigned char *code)
{
	bytes rex, opcode, operands, pop;
	uint64_t found[2];

	memcpy(&pop, code, sizeof(pop));
	memcpy(&opcode, code + 1, sizeof(opcode));
	memcpy(&operands, code + 2, sizeof(operands));
	rex = (bytes)((pop & 0xf8) == 0x48);
	pop = (bytes)((pop == 0x5c) & (opcode != 0x24)) | (bytes)(pop == 0x8f);
	operands = (bytes)(((operands & 0x30) == 0x20) | ((operands & 0xc6) == 0xc4));
	operands &= (bytes)(((opcode & 0xd5) == 0x01) | (opcode == 0x89) | (opcode == 0x8b) |
			    (opcode == 0x8d));
	operands |= (bytes)((opcode == 0x0f) | (opcode == 0x94));
	pop |= rex & operands;
	memcpy(found, &pop, sizeof(found));
	return !(found[0] | found[1]);
}

size_t lbt_next_stack_move(const unsigned char *code, size_t size, size_t from)
{
	for (; from + 1 < size; from++) {
		enum way way = NO_WAY;

		while (size - from >= STRIDE + 2 && none_moves(code + from))
			from += STRIDE;
		if (from + 1 >= size)
			break;
		if ((code[from] & 0xf8) == 0x48 && size - from >= 5)
			way = sets(code + from);
		else if (code[from] == 0x5c || code[from] == 0x8f)
			way = pops(code, size, from) ? BY_POP : NO_WAY;
		if (way != NO_WAY && (leads_away(code, size, from, way) ||
				      moves_both(code + from, size - from)))
			return from;
	}
	return size;
}

size_t lbt_pass_over(const unsigned char *code, size_t size, size_t from, size_t to)
{
	struct instruction i;

	while (from < to && lbt_read_instruction(code, size, from, 0, &i))
		from = (size_t)i.next;
	return from;
}
