/* Other ways to take up a stack: see stack_moves.h. */
#include "stack_moves.h"

#include <string.h>

#include "x86_64_kinds.h"

enum { LOOK_AHEAD = 24, REX_B = 1, REX_R = 4, REX_W = 8 };
enum way { NO_WAY, TO_STACK, TO_FRAME, BY_POP };

enum { STRIDE = 16 };
typedef unsigned char bytes __attribute__((vector_size(STRIDE)));

/* Whether rsp is set by one that begins with 0F: bswap, movbe, cmpxchg, imul, movzx, popcnt, movq. */
static int sets_by_long(int opcode, int modrm, int to_reg, int to_rm, int rex)
{
	switch (opcode) {
	case 0x38:
		return modrm == 0xf0 || modrm == 0xf1;
	case 0x7e: case 0xa4: case 0xa5: case 0xac: case 0xad: case 0xb1:
		return to_rm == RSP;
	case 0xaf: case 0xb6: case 0xb7: case 0xb8: case 0xbc: case 0xbd: case 0xbe: case 0xbf:
		return to_reg == RSP;
	case 0xc1:
		return to_reg == RSP || to_rm == RSP;
	case 0xcc:
		return !(rex & REX_B);
	}
	return 0;
}

/* What has VEX and sets general registers, of which rsp is the one in ModRM: rorx, pdep and others. */
static int sets_by_vex(const unsigned char *code)
{
	enum { R = 0x80, W = 0x80 };

	return (code[1] & 0x9e) == (R | 2) && code[2] & W && code[3] >> 3 == 0xf0 >> 3 &&
	       (code[4] >> 3 & 7) == RSP;
}

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
		return sets_by_long(opcode, modrm, to_reg, to_rm, rex) ? TO_STACK : NO_WAY;
	switch (opcode) {
	case 0x01: case 0x09: case 0x11: case 0x19: case 0x21: case 0x29: case 0x31:
		return to_rm == RSP ? TO_STACK : NO_WAY;
	case 0xc7:
		return to_rm == RSP && !reg ? TO_STACK : NO_WAY;
	case 0xf7:
		return to_rm == RSP && (reg == 2 || reg == 3) ? TO_STACK : NO_WAY;
	case 0x03: case 0x0b: case 0x13: case 0x1b: case 0x23: case 0x2b: case 0x33:
	case 0x63: case 0x69: case 0x6b:
		return to_reg == RSP ? TO_STACK : NO_WAY;
	case 0x94: case 0xbc: case 0xcf:
		return rex & REX_B && opcode == 0xbc ? NO_WAY : TO_STACK;
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

/* Whether an instruction with REX.W adds to a register, or subtracts, what another holds, or masks. */
static int is_shift(const unsigned char *code)
{
	return code[1] == 0x21 || code[1] == 0x23 || code[1] == 0x01 || code[1] == 0x29 || code[1] == 0x03 || code[1] == 0x2b ||
	       (code[1] == 0x0f && code[2] == 0xc1);
}

/*
 * Whether code leads on from an instruction, by way of rsp, to one that leaves: straight after what
 * adds to rsp, as what makes room for an array does, else also by jumps, past branches and calls.
 */
static int leads_away(const unsigned char *code, size_t size, size_t at, enum way way)
{
	int shifts = size - at > 2 && is_shift(code + at), called = 0;

	for (int passed = 0; passed <= LOOK_AHEAD && at < size; passed++) {
		struct instruction i;

		if (!lbt_read_instruction(code, size, at, 0, &i))
			return way != BY_POP; /* left to a full decoder, but for a byte alone */
		at = (size_t)i.next;
		if (!passed && i.flow == FLOW_NEXT)
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
			return called && way == TO_STACK;
		called |= is_call(i.flow);
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
	bytes rex, vex, opcode, operands, pop;
	uint64_t found[2];

	memcpy(&pop, code, sizeof(pop));
	memcpy(&opcode, code + 1, sizeof(opcode));
	memcpy(&operands, code + 2, sizeof(operands));
	rex = (bytes)((pop & 0xf8) == 0x48);
	vex = (bytes)(pop == 0xc4);
	pop = (bytes)((pop == 0x5c) & (opcode != 0x24)) | (bytes)(pop == 0x8f);
	operands = (bytes)(((operands & 0x30) == 0x20) | ((operands & 0xc6) == 0xc4));
	operands &= (bytes)(((opcode & 0xc5) == 0x01) | (opcode == 0x89) | (opcode == 0x8b) |
			    (opcode == 0x8d) | (opcode == 0xc7) | (opcode == 0xf7) | (opcode == 0x63) |
			    ((opcode & 0xfd) == 0x69));
	operands |= (bytes)((opcode == 0x0f) | (opcode == 0x94) | (opcode == 0xbc) | (opcode == 0xcf));
	pop |= rex & operands;
	pop |= vex & (bytes)((opcode & 0x9e) == 0x82);
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
		else if (code[from] == 0xc4 && size - from >= 5)
			way = sets_by_vex(code + from) ? TO_STACK : NO_WAY;
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

size_t lbt_next_leading(const unsigned char *code, size_t size, size_t from, size_t low, size_t high,
			size_t *target)
{
	struct instruction i;

	*target = size;
	for (; from < size && lbt_read_instruction(code, size, from, 0, &i); from = (size_t)i.next) {
		if (i.flow == FLOW_JUMP || i.flow == FLOW_BRANCH)
			*target = (size_t)(i.next + (uint64_t)i.immediate);
		else if (!i.extended && i.opcode == 0x8d && i.relative)
			*target = (size_t)(i.next + (uint64_t)i.displacement);
		else
			continue;
		if (*target >= low && *target <= high)
			return from;
	}
	*target = size;
	return from;
}
