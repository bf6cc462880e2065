/*
 * Which registers hold numbers that x86-64 code shows, by simple arithmetic: in the order of the code,
 * as lbtrace/machine/x86_64/known_numbers.py counts them. Those that only a full decoder counts are
 * vague here.
 */
#ifndef LBT_KNOWN_NUMBERS_H
#define LBT_KNOWN_NUMBERS_H

#include "x86_64_kinds.h"

enum { REGISTERS = 16, RAX = 0, RCX = 1, RDX = 2 };

struct numbers {
	uint32_t known, vague; /* a bit for each register */
	int64_t value[REGISTERS];
};

/* ModRM.reg of opcodes that share one: Intel SDM volume 2, A.4. */
enum group { G_ADD, G_OR, G_ADC, G_SBB, G_AND, G_SUB, G_XOR, G_CMP };
enum { G_SHL = 4, G_SHR, G_SAL, G_SAR, G_NOT = 2, G_NEG };

static inline int has_number(const struct numbers *numbers, int reg)
{
	return reg >= 0 && numbers->known >> reg & 1;
}

static inline int is_vague(const struct numbers *numbers, int reg)
{
	return reg >= 0 && numbers->vague >> reg & 1;
}

static inline void numbers_none(struct numbers *numbers)
{
	numbers->known = numbers->vague = 0;
}

static inline void forget_number(struct numbers *numbers, int reg)
{
	numbers->known &= ~(1u << reg);
	numbers->vague &= ~(1u << reg);
}

static inline int64_t times(int64_t one, int64_t other)
{
	return (int64_t)((uint64_t)one * (uint64_t)other);
}

/* ADD, OR, AND, SUB and XOR of a register and another one, or memory. */
static inline int is_arithmetic(const struct instruction *i)
{
	int group = i->opcode >> 3;

	return !i->extended && i->opcode < 0x38 && ((i->opcode & 7) == 1 || (i->opcode & 7) == 3) &&
	       group != G_ADC && group != G_SBB;
}

/* ADD and SUB of two registers of 64 bits. */
static inline int is_sum(const struct instruction *i)
{
	return is_arithmetic(i) && i->wide && !i->in_memory &&
	       (i->opcode >> 3 == G_ADD || i->opcode >> 3 == G_SUB);
}

/* Sets the register that the instruction writes. */
static inline void set_number(struct numbers *numbers, const struct instruction *i, int64_t value)
{
	numbers->known |= 1u << i->written;
	numbers->vague &= ~(1u << i->written);
	numbers->value[i->written] = i->wide ? value : (int64_t)(uint32_t)value;
	if (i->prefix == 1 && !i->wide) /* 16 bits of it */
		numbers->vague |= 1u << i->written;
}

static inline int64_t arithmetic(int group, int64_t one, int64_t other)
{
	uint64_t a = (uint64_t)one, b = (uint64_t)other;

	return (int64_t)(group == G_ADD ? a + b : group == G_OR ? a | b : group == G_AND ? a & b
			 : group == G_SUB ? a - b : a ^ b);
}

static inline int64_t shifted(const struct instruction *i, int64_t value, int64_t by)
{
	int group = i->reg & 7;
	unsigned count = (unsigned)by & (i->wide ? 63 : 31);

	if (group == G_SHR)
		return (int64_t)((i->wide ? (uint64_t)value : (uint32_t)value) >> count);
	if (group == G_SAR)
		return (i->wide ? value : (int32_t)value) >> count;
	return (int64_t)((uint64_t)value << count);
}

/* What an instruction computes of numbers; sources is what it reads of registers, as bits. */
static inline int64_t computed_number(const struct numbers *numbers, const struct instruction *i,
				      uint32_t *sources)
{
	int64_t before = numbers->value[i->written], other;
	int second = i->opcode & 2 ? i->rm : i->reg, group = i->reg & 7;
	uint32_t own = 1u << i->written;

	*sources = i->in_memory ? ~0u : own;
	if (is_arithmetic(i)) {
		if (i->rm == i->reg && !i->in_memory &&
		    (i->opcode >> 3 == G_XOR || i->opcode >> 3 == G_SUB))
			return *sources = 0;
		*sources |= 1u << second;
		return arithmetic(i->opcode >> 3, before, numbers->value[second]);
	}
	if (i->opcode < 0x38 && (i->opcode & 7) == 5) {
		*sources = own;
		return arithmetic(i->opcode >> 3, before, i->immediate);
	}
	switch (i->opcode) {
	case 0x81: case 0x83:
		return arithmetic(group, before, i->immediate);
	case 0x89: case 0x8b:
		*sources = i->in_memory ? ~0u : 1u << second;
		return numbers->value[second];
	case 0x8d:
		*sources = (i->base >= 0 ? 1u << i->base : 0) | (i->index >= 0 ? 1u << i->index : 0) |
			   (i->relative ? ~0u : 0);
		other = i->index >= 0 ? times(numbers->value[i->index], i->scale) : 0;
		return arithmetic(G_ADD, other, arithmetic(G_ADD, i->displacement,
				  i->base >= 0 ? numbers->value[i->base] : 0));
	case 0xc1:
		return shifted(i, before, i->immediate);
	case 0xd1:
		return shifted(i, before, 1);
	case 0xd3:
		*sources |= 1u << RCX;
		return shifted(i, before, numbers->value[RCX]);
	case 0xff:
		return arithmetic(G_ADD, before, group ? -1 : 1);
	case 0xf7:
		return group == G_NOT ? ~before : arithmetic(G_SUB, 0, before);
	case 0x69: case 0x6b:
		*sources = i->in_memory ? ~0u : 1u << i->rm;
		return times(numbers->value[i->rm], i->immediate);
	case 0x63:
		*sources = i->in_memory ? ~0u : 1u << i->rm;
		return (int32_t)numbers->value[i->rm];
	}
	*sources = 0; /* MOV of a number */
	return i->immediate;
}

/* Whether what an instruction computes is known, if what it reads is. */
static inline int is_computed(const struct instruction *i)
{
	int group = i->reg & 7;

	if (i->extended || i->flow != FLOW_NEXT)
		return 0;
	switch (i->opcode) {
	case 0x05: case 0x0d: case 0x25: case 0x2d: case 0x35: case 0x63: case 0x69: case 0x6b:
	case 0x89: case 0x8b: case 0x8d: case 0xc7:
		return 1;
	case 0x81: case 0x83:
		return group != G_ADC && group != G_SBB;
	case 0xc1: case 0xd1: case 0xd3:
		return group >= G_SHL;
	case 0xff:
		return group < 2;
	case 0xf7:
		return group == G_NOT || group == G_NEG;
	}
	return is_arithmetic(i) || (i->opcode >= 0xb8 && i->opcode < 0xc0);
}

/* MOVZX, MOVSX and IMUL of another register. */
static inline int is_extended_number(const struct instruction *i)
{
	return i->extended && !i->in_memory &&
	       ((i->opcode & 0xf6) == 0xb6 || i->opcode == 0xaf);
}

/* Whether an instruction writes no general register but the one that is named, if any. */
static inline int writes_no_other(const struct instruction *i)
{
	int opcode = i->opcode;

	if (i->extended)
		return (opcode >= 0x10 && opcode < 0x30) || (opcode >= 0x40 && opcode < 0x90) ||
		       (opcode >= 0xb6 && opcode < 0xc0) || opcode == 0xaf || opcode == 0xa3 ||
		       opcode == 0x1e || opcode == 0x1f || (opcode > 0xc1 && opcode < 0xc7) ||
		       (opcode > 0xc7 && i->has_modrm);
	if (opcode < 0x40)
		return (opcode & 1) || opcode > 0x37 || (i->in_memory && !(opcode & 2));
	return opcode == 0x63 || (opcode >= 0x50 && opcode < 0x70) || opcode == 0x81 ||
	       opcode == 0x83 || (opcode >= 0x84 && opcode < 0x86) || opcode == 0x89 ||
	       opcode == 0x8b || opcode == 0x8d || opcode == 0x90 ||
	       (opcode >= 0xa8 && opcode < 0xaa) || (opcode >= 0xb8 && opcode < 0xc0) ||
	       opcode == 0xc1 || opcode == 0xc7 || opcode == 0xd1 || opcode == 0xd3 ||
	       (opcode >= 0xd8 && opcode < 0xe0) || opcode == 0xff ||
	       ((opcode == 0x80 || opcode == 0x88 || opcode == 0xc6) && i->in_memory) ||
	       (opcode == 0xf7 && (i->reg & 7) < 4) || (opcode == 0xf6 && (i->reg & 7) < 2);
}

/* Counts what a plain instruction leaves in registers, after all else was made of it. */
static inline void count_numbers(struct numbers *numbers, const struct instruction *i)
{
	uint32_t sources = ~0u;
	int64_t value = 0;

	if (!writes_no_other(i))
		numbers->vague |= numbers->known;
	if (i->written < 0 || is_compared(i) ||
	    (!i->extended && (i->opcode == 0x3d || i->opcode == 0xa9)) ||
	    (i->flow == FLOW_STACK && !is_pop(i)))
		return;
	if (is_computed(i))
		value = computed_number(numbers, i, &sources);
	if (is_extended_number(i) && has_number(numbers, i->rm)) {
		set_number(numbers, i, 0);
		numbers->vague |= 1u << i->written;
		return;
	}
	if (sources & ~numbers->known) {
		forget_number(numbers, i->written);
		return;
	}
	sources &= numbers->vague;
	set_number(numbers, i, value);
	if (sources)
		numbers->vague |= 1u << i->written;
}

#endif
