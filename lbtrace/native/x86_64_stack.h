/* How x86-64 instructions move the stack: lbtrace/machine/x86_64/stack_depth.py. */
#ifndef LBT_X86_64_STACK_H
#define LBT_X86_64_STACK_H

#include "x86_64_kinds.h"

enum { LBT_DEEPEST = 1 << 30 };

/* Bytes by which rsp and rbp lie below the stack pointer at entry; LBT_NO_DEPTH. */
struct stack {
	int32_t pointer, base;
};

static const struct stack NOWHERE = {LBT_NO_DEPTH, LBT_NO_DEPTH};

static inline int same(struct stack one, struct stack other)
{
	return one.pointer == other.pointer && one.base == other.base;
}

static inline int32_t lbt_less(int32_t depth, int64_t amount, int *too_much)
{
	if (depth == LBT_NO_DEPTH)
		return LBT_NO_DEPTH;
	if (amount > LBT_DEEPEST || amount < -LBT_DEEPEST || depth - amount > LBT_DEEPEST ||
	    depth - amount < -LBT_DEEPEST) {
		*too_much = 1;
		return LBT_NO_DEPTH;
	}
	return (int32_t)(depth - amount);
}

static inline int32_t lbt_depth_of(struct stack stack, int reg)
{
	return reg == RSP ? stack.pointer : reg == RBP ? stack.base : LBT_NO_DEPTH;
}

/* The distance of rsp or rbp after an instruction that writes it. */
static inline int32_t lbt_written(struct stack stack, const struct instruction *i, int *too_much)
{
	if (is_moved(i) && second_register(i) >= 0)
		return lbt_depth_of(stack, second_register(i));
	if (!i->extended && i->opcode == 0x8d && !i->indexed)
		return lbt_less(lbt_depth_of(stack, i->base), i->displacement, too_much);
	if (is_immediate(i) && (i->reg & 7) == 5)
		return lbt_less(lbt_depth_of(stack, i->first), -i->immediate, too_much);
	if (is_immediate(i) && !(i->reg & 7))
		return lbt_less(lbt_depth_of(stack, i->first), i->immediate, too_much);
	return LBT_NO_DEPTH;
}

/* The stack after a plain instruction. */
static inline struct stack lbt_stack_after(struct stack stack, const struct instruction *i,
					   int *too_much)
{
	if (i->flow == FLOW_STACK && !i->extended && i->opcode == 0xc9)
		return (struct stack){lbt_less(stack.base, 8, too_much), LBT_NO_DEPTH};
	if (i->flow == FLOW_STACK)
		stack.pointer = lbt_less(stack.pointer, is_pop(i) ? 8 : -8, too_much);
	else if (i->first == RBP && !is_compared(i))
		stack.base = lbt_written(stack, i, too_much);
	else if (i->first == RSP && !is_compared(i))
		stack.pointer = lbt_written(stack, i, too_much);
	return stack;
}

#endif
