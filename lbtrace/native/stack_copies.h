/*
 * Where code may have copies of the stack pointer, and whether it may reach its return address by
 * one. This is a guess, in the order of the code: what it finds is left to a full decoder, and
 * lbtrace/machine/x86_64/stack_copies.py.
 */
#ifndef LBT_STACK_COPIES_H
#define LBT_STACK_COPIES_H

#include "known_numbers.h"
#include "reach.h"
#include "x86_64_stack.h"

enum { COPY_SLOTS = 16, ADDRESS_SIZE = 8, VECTOR_SIZE = 16 };
/* More than any instruction saves: Intel SDM volume 1, 13.4. */
enum { SAVED_STATE = 1 << 14 };

/* What a slot of the stack holds: the frame pointer of the caller. */
enum { CALLERS_FRAME = LBT_NO_DEPTH + 1 };

/*
 * Depths as in struct stack: of what registers other than rsp and rbp hold, and of what slots do; also
 * addresses at known distances from what a parameter points to.
 */

struct copies {
	int32_t held[REGISTERS];
	struct {
		int64_t slot;
		int32_t depth;
	} slots[COPY_SLOTS];
	size_t slot_count;
	struct numbers numbers;
	int32_t frame; /* what rbp may hold as a copy of another register */
};

static inline void copies_none(struct copies *copies)
{
	for (int each = 0; each < REGISTERS; each++)
		copies->held[each] = LBT_NO_DEPTH;
	copies->frame = LBT_NO_DEPTH;
}

static const uint8_t parameters[LBT_PARAMETERS] = {7, 6, 2, 1, 8, 9}; /* rdi, rsi, rdx, rcx, r8, r9 */

/* The number of the parameter from which a value is counted, and 0 for what is none. */
static inline int parameter_of(int32_t depth)
{
	return depth < PARAMETER / 2 ? 0 : (depth + PARAMETER / 2) / PARAMETER;
}

static inline int32_t copies_of(const struct copies *copies, struct stack stack, int reg)
{
	if (reg == RBP && stack.base == LBT_NO_DEPTH)
		return copies->frame;
	if (reg < 0 || reg == RSP || reg == RBP)
		return lbt_depth_of(stack, reg);
	return copies->held[reg];
}

/* The same, but for what a parameter points to. */
static inline int32_t copies_own(const struct copies *copies, struct stack stack, int reg)
{
	int32_t depth = copies_of(copies, stack, reg);

	return parameter_of(depth) ? LBT_NO_DEPTH : depth;
}

/* At the start of a function. */
static inline void copies_begin(struct copies *copies)
{
	for (int each = 0; each < LBT_PARAMETERS; each++)
		copies->held[parameters[each]] = (each + 1) * PARAMETER;
}

/* Less by an amount; parameters may be any numbers. */
static inline int32_t copies_less(int32_t depth, int64_t amount, int *too_much)
{
	int ignored = 0, parameter = parameter_of(depth);
	int32_t less = lbt_less(depth, amount, parameter ? &ignored : too_much);

	return parameter_of(less) == parameter ? less : LBT_NO_DEPTH;
}

/* The depth of what a slot holds. */
static inline int32_t copies_in(const struct copies *copies, int64_t slot)
{
	for (size_t each = 0; each < copies->slot_count; each++)
		if (copies->slots[each].slot == slot)
			return copies->slots[each].depth;
	return LBT_NO_DEPTH;
}

/* Keeps what is stored in a slot; the oldest of too many is forgotten. */
static inline void copies_store(struct copies *copies, int64_t slot, int32_t depth)
{
	size_t each = 0;

	while (each < copies->slot_count && copies->slots[each].slot != slot)
		each++;
	if (each == copies->slot_count) {
		if (depth == LBT_NO_DEPTH || (each == COPY_SLOTS && parameter_of(depth)))
			return;
		if (each == COPY_SLOTS)
			each = (uint64_t)slot / 8 % COPY_SLOTS;
		else
			copies->slot_count++;
	}
	copies->slots[each].slot = slot;
	copies->slots[each].depth = depth;
}

/* The slot in memory of an instruction; where rsp or rbp is not known, by their number. */
static inline int64_t copies_slot(const struct copies *copies, struct stack stack,
				  const struct instruction *i)
{
	int32_t depth = copies_own(copies, stack, i->base);

	return depth == LBT_NO_DEPTH ? ((int64_t)(i->base + 2) << 40) - i->displacement
				     : depth - i->displacement;
}

/* Whether a value is the address of a byte of the return address. */
static inline int is_address_of_return(int32_t depth)
{
	return depth != LBT_NO_DEPTH && depth != CALLERS_FRAME && depth <= 0 &&
	       depth > -ADDRESS_SIZE;
}

static inline int is_passed(const struct copies *copies)
{
	for (size_t each = 0; each < 4; each++)
		if (is_address_of_return(copies->held[parameters[each]]))
			return 1;
	return 0;
}

/* Bytes that an instruction accesses, at most, where its opcode says little. */
static inline int reached_size(const struct instruction *i)
{
	if (i->extended && (i->opcode == 0xae || i->opcode == 0xc7))
		return SAVED_STATE; /* XSAVE and smaller */
	if (i->extended)
		return (i->opcode & 0xf6) == 0xb6 || (i->opcode & 0xf0) == 0x90 ? 2 : VECTOR_SIZE;
	if ((i->opcode & 0xf8) == 0xd8)
		return SAVED_STATE; /* FNSAVE and smaller */
	return i->wide || i->flow == FLOW_STACK || is_end(i->flow) || is_call(i->flow)
		       ? ADDRESS_SIZE : 4;
}

/*
 * The depth of the memory that an instruction addresses, or LBT_NO_DEPTH: where it is indexed by what
 * is not known, at index 0. Vague where a number is that counts.
 */
static inline int32_t copies_address(const struct copies *copies, struct stack stack,
				     const struct instruction *i, int *vague)
{
	int32_t depth = copies_own(copies, stack, i->base);
	int index = i->index;
	int64_t scale = i->scale;

	if (depth == LBT_NO_DEPTH && i->indexed && scale == 1) {
		depth = copies_own(copies, stack, i->index);
		index = i->base;
	}
	if (depth == LBT_NO_DEPTH || depth == CALLERS_FRAME)
		return LBT_NO_DEPTH;
	depth = lbt_less(depth, i->displacement, vague);
	if (!i->indexed || !has_number(&copies->numbers, index))
		return depth;
	*vague |= is_vague(&copies->numbers, index);
	return lbt_less(depth, times(copies->numbers.value[index], scale), vague);
}

/* Whether memory that an instruction accesses may be the return address, or the saved rbp. */
static inline int copies_reach(const struct copies *copies, struct stack stack,
			       const struct instruction *i)
{
	int vague = 0;
	int32_t depth;

	if (!i->extended && i->opcode == 0x8d)
		return 0;
	depth = copies_address(copies, stack, i, &vague);
	if (vague)
		return 1;
	if (depth == LBT_NO_DEPTH)
		return 0;
	if (!depth && !i->indexed && lbt_depth_of(stack, i->base) != LBT_NO_DEPTH)
		return 0; /* which is seen by itself */
	if (-depth < ADDRESS_SIZE && -depth > -reached_size(i))
		return 1;
	return stack.base == 8 && depth == 8 && i->base != RBP && i->written != RBP;
}

/* Notes where an instruction accesses memory at a known distance from what a parameter points to. */
static inline void copies_note(const struct copies *copies, struct stack stack,
			       const struct instruction *i, struct lbt_reach *found)
{
	int32_t base = copies_of(copies, stack, i->base);
	int parameter = parameter_of(base);

	if (!parameter || i->indexed || (!i->extended && i->opcode == 0x8d) ||
	    found->access_count == LBT_REACHED)
		return;
	found->accesses[found->access_count++] = (struct lbt_access){
		parameter * PARAMETER - base + i->displacement, (int16_t)reached_size(i),
		(int16_t)parameter};
}

/* What a call or jump passes on. */
static inline struct lbt_passed copies_passed(const struct copies *copies)
{
	struct lbt_passed passed;

	for (int each = 0; each < LBT_PARAMETERS; each++)
		passed.values[each] = copies->held[parameters[each]];
	return passed;
}

static inline int is_string(const struct instruction *i)
{
	return !i->extended && ((i->opcode >= 0xa4 && i->opcode < 0xa8) ||
				(i->opcode >= 0xaa && i->opcode < 0xb0));
}

/* The sum or difference of a copy and a number, both in registers. */
static inline int32_t copies_sum(const struct copies *copies, struct stack stack,
				 const struct instruction *i, int *too_much)
{
	int second = i->opcode & 2 ? i->rm : i->reg, number = second;
	int32_t depth = copies_own(copies, stack, i->written);

	if (depth == LBT_NO_DEPTH && is_add(i)) {
		depth = copies_own(copies, stack, second);
		number = i->written;
	}
	if (depth == LBT_NO_DEPTH || !has_number(&copies->numbers, number))
		return LBT_NO_DEPTH;
	*too_much |= is_vague(&copies->numbers, number);
	return lbt_less(depth, times(copies->numbers.value[number], is_add(i) ? 1 : -1), too_much);
}

/* What a plain instruction leaves in the register that it writes. */
static inline int32_t copies_written(const struct copies *copies, struct stack stack,
				     const struct instruction *i, int *too_much)
{
	int32_t before = copies_of(copies, stack, i->written);

	if (i->extended && (i->opcode & 0xf0) == 0x40) {
		int32_t moved = i->in_memory ? LBT_NO_DEPTH : copies_of(copies, stack, i->rm);

		return moved == LBT_NO_DEPTH || (parameter_of(moved) && before != LBT_NO_DEPTH)
			       ? before : moved;
	}
	if (i->extended || !i->wide)
		return i->extended && (i->opcode == 0xa3 || i->opcode == 0xba) ? before
									       : LBT_NO_DEPTH;
	if (is_moved(i))
		return !i->in_memory ? copies_of(copies, stack, second_register(i))
		       : i->indexed || (i->base != RSP && i->base != RBP) ? LBT_NO_DEPTH
				    : copies_in(copies, copies_slot(copies, stack, i));
	if (i->opcode == 0x8d && !i->indexed)
		return copies_less(copies_of(copies, stack, i->base), i->displacement, too_much);
	if (i->opcode == 0x8d)
		return has_number(&copies->numbers, i->index) ||
				       has_number(&copies->numbers, i->base)
			       ? copies_address(copies, stack, i, too_much) : LBT_NO_DEPTH;
	if (is_sum(i))
		return copies_sum(copies, stack, i, too_much);
	if (is_immediate(i) && (i->reg & 7) == 5)
		return copies_less(before, -i->immediate, too_much);
	if (is_immediate(i) && !(i->reg & 7))
		return copies_less(before, i->immediate, too_much);
	if (is_immediate(i) && (i->reg & 7) == 4) /* AND, which aligns */
		return i->immediate >= -ADDRESS_SIZE ? before : LBT_NO_DEPTH;
	if (i->opcode == 0xff && (i->reg & 7) < 2)
		return copies_less(before, i->reg & 7 ? -1 : 1, too_much);
	return LBT_NO_DEPTH;
}

/* What follows on a push or pop; true where the frame pointer of the caller is taken. */
static inline int copies_pushed(struct copies *copies, struct stack stack,
				const struct instruction *i, int is_callers)
{
	int reg = i->first;
	int32_t value;

	if (i->extended || stack.pointer == LBT_NO_DEPTH || i->opcode == 0xc9)
		return 0;
	if (!is_pop(i)) {
		value = i->in_memory ? copies_in(copies, copies_slot(copies, stack, i))
				     : copies_of(copies, stack, reg);
		copies_store(copies, stack.pointer + 8,
			     reg == RBP && is_callers ? CALLERS_FRAME : value);
		return 0;
	}
	value = copies_in(copies, stack.pointer);
	if (reg == RBP)
		copies->frame = LBT_NO_DEPTH;
	if (reg >= 0 && reg != RSP && reg != RBP)
		copies->held[reg] = value == CALLERS_FRAME ? LBT_NO_DEPTH : value;
	return value == CALLERS_FRAME && reg != RBP;
}

/* Whether an instruction sets rsp to what rbp holds. */
static inline int takes_base(const struct instruction *i)
{
	return !i->extended && (i->opcode == 0xc9 || (i->written == RSP &&
						      (second_register(i) == RBP || i->base == RBP)));
}

/* Follows a plain instruction; true where it may do what a full decoder is to look at. */
static inline int copies_follow(struct copies *copies, struct stack stack,
				const struct instruction *i, int is_callers, int *too_much)
{
	int32_t value;
	int second;

	if (copies->frame != LBT_NO_DEPTH && takes_base(i))
		return 1;
	if (i->flow == FLOW_STACK)
		return copies_pushed(copies, stack, i, is_callers);
	if (is_exchange(i) && i->wide && !i->in_memory) {
		second = i->opcode == 0x87 ? i->reg : RAX;
		if (i->first < 0 || i->first == RSP || i->first == RBP || second == RSP ||
		    second == RBP)
			return 1;
		value = copies->held[second];
		copies->held[second] = copies->held[i->first];
		copies->held[i->first] = value;
		return 0;
	}
	if (is_string(i) && (is_address_of_return(copies->held[6]) ||
			     is_address_of_return(copies->held[7])))
		return 1;
	if (i->in_memory && i->wide && !i->extended && (i->opcode == 0x89 || i->opcode == 0x87)) {
		value = copies_of(copies, stack, i->reg);
		if (is_address_of_return(value) &&
		    copies_own(copies, stack, i->base) == LBT_NO_DEPTH && i->base != RSP &&
		    i->base != RBP)
			return 1;
		if (!i->indexed)
			copies_store(copies, copies_slot(copies, stack, i), value);
	}
	if (i->extended && i->opcode == 0xa2) /* CPUID */
		copies->held[RAX] = copies->held[RDX] = copies->held[1] = LBT_NO_DEPTH;
	if (!i->extended && i->opcode == 0xf7 && (i->reg & 7) > 3) {
		copies->held[RAX] = copies->held[RDX] = LBT_NO_DEPTH;
		return 0;
	}
	if (i->written < 0 || is_compared(i) ||
	    (!i->extended && (i->opcode == 0x3d || i->opcode == 0xa9)))
		return 0;
	if (i->written == RBP) {
		value = is_moved(i) || is_immediate(i) || (i->opcode == 0x8d && !i->indexed)
				? copies_written(copies, stack, i, too_much) : LBT_NO_DEPTH;
		copies->frame = parameter_of(value) || i->base == RSP || second_register(i) == RSP
					? LBT_NO_DEPTH : value;
		return copies->frame == 8;
	}
	if (i->written == RSP) /* which may become known again */
		return is_moved(i) && second_register(i) >= 0 &&
		       copies_own(copies, stack, second_register(i)) != LBT_NO_DEPTH &&
		       second_register(i) != RSP && second_register(i) != RBP;
	copies->held[i->written] = copies_written(copies, stack, i, too_much);
	return 0;
}

/* What a call leaves: its results are no copies. Assembly may preserve those of the stack pointer. */
static inline void copies_called(struct copies *copies)
{
	static const uint8_t changed[] = {0, 1, 2, 6, 7, 8, 9, 10, 11};

	numbers_none(&copies->numbers);
	for (size_t each = 0; each < sizeof(changed); each++)
		if (parameter_of(copies->held[changed[each]]))
			copies->held[changed[each]] = LBT_NO_DEPTH;
	copies->held[RAX] = copies->held[RDX] = LBT_NO_DEPTH;
}

#endif
