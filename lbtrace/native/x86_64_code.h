/*
 * Reads x86-64 instructions (Intel SDM, volume 2): those that programs use often, and of each what
 * following code and the stack pointer needs. What these opcodes are is in x86_64_opcodes.h.
 */
#ifndef LBT_X86_64_CODE_H
#define LBT_X86_64_CODE_H

#include <stddef.h>
#include <stdint.h>

enum immediate {
	IMMEDIATE_NO, IMMEDIATE_BYTE, IMMEDIATE_WORD,
	IMMEDIATE_USUAL,    /* by the operand size, 4 bytes at most */
	IMMEDIATE_WIDE,     /* by the operand size */
	IMMEDIATE_ADDRESS,  /* 8 bytes */
	IMMEDIATE_DISTANCE, /* 4 bytes */
};

/* Which 64-bit register the first operand is, with REX.W. */
enum operand { OPERAND_NONE, OPERAND_RM, OPERAND_REG, OPERAND_OPCODE, OPERAND_RAX };

enum flow {
	FLOW_UNKNOWN, FLOW_NEXT, FLOW_NOP, FLOW_STACK, FLOW_JUMP, FLOW_BRANCH, FLOW_CALL,
	FLOW_RETURN, FLOW_TRAP, FLOW_INT3, FLOW_SYSCALL,
	FLOW_SPECIAL,       /* the ModRM byte decides */
	FLOW_CALL_THROUGH, FLOW_JUMP_THROUGH,
};

enum register_number { RSP = 4, RBP = 5, NO_REGISTER = -1 };

/* An unknown depth of the stack. */
enum { LBT_NO_DEPTH = -2147483647 };

struct instruction {
	uint64_t address, next;
	int64_t displacement, immediate; /* extended; a jump's or call's distance is immediate */
	uint8_t opcode, reg, rm, prefix; /* prefix: that which selects the opcode, or 0 */
	uint8_t flow, notrack, wide, extended;
	uint8_t has_modrm, in_memory, indexed, relative;
	int8_t first;   /* the 64-bit register that is the first operand */
	int8_t written; /* the same of 32 bits, too */
	int8_t base;    /* in memory */
	int8_t index, scale;
};

/* Reads the instruction at code[at]; false for what is left to a full decoder. */
int lbt_read_instruction(const unsigned char *code, size_t size, size_t at, uint64_t address,
			 struct instruction *into);

/*
 * Passes over instructions from one place on; where it comes to: to another one, or beyond, or
 * before it to an instruction that is left to a full decoder.
 */
size_t lbt_pass_over(const unsigned char *code, size_t size, size_t from, size_t to);

#endif
