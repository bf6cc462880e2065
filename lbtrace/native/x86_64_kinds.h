/* What x86-64 instructions do to the stack pointer and to rbp: Intel SDM volume 2. */
#ifndef LBT_X86_64_KINDS_H
#define LBT_X86_64_KINDS_H

#include "x86_64_code.h"

static inline int is_moved(const struct instruction *i)
{
	return !i->extended && (i->opcode == 0x89 || i->opcode == 0x8b);
}

/* ADD, SUB and CMP with an immediate number. */
static inline int is_immediate(const struct instruction *i)
{
	return !i->extended && (i->opcode == 0x81 || i->opcode == 0x83);
}

static inline int is_compared(const struct instruction *i)
{
	unsigned reg = i->reg & 7;

	if (i->extended)
		return 0;
	return i->opcode == 0x39 || i->opcode == 0x3b || i->opcode == 0x85 ||
	       (is_immediate(i) && reg == 7) || (i->opcode == 0xf7 && reg < 2);
}

/* The second operand, where it is a 64-bit register. */
static inline int second_register(const struct instruction *i)
{
	if (!i->wide || i->extended)
		return NO_REGISTER;
	if (i->opcode == 0x89 || i->opcode == 0x87)
		return i->reg;
	return i->opcode == 0x8b && !i->in_memory ? i->rm : NO_REGISTER;
}

static inline int is_pop(const struct instruction *i)
{
	if (i->extended)
		return i->opcode == 0xa1 || i->opcode == 0xa9;
	return (i->opcode & 0xf8) == 0x58 || i->opcode == 0x8f || i->opcode == 0x9d;
}

static inline int is_plain(int flow)
{
	return flow == FLOW_NEXT || flow == FLOW_NOP || flow == FLOW_STACK;
}

static inline int is_call(int flow)
{
	return flow == FLOW_CALL || flow == FLOW_CALL_THROUGH || flow == FLOW_SYSCALL;
}

#endif
