/* x86-64 instructions: see x86_64_code.h. */
#include "x86_64_code.h"

#include <string.h>

struct opcode {
	uint16_t mask; /* values of ModRM.reg, with an operand in memory; from bit 8 on in a register */
	uint8_t modrm, immediate, operand, flow;
};

#include "x86_64_opcodes.h"

enum { LONGEST = 15, REX_B = 1, REX_X = 2, REX_R = 4, REX_W = 8 };
enum { NO_PREFIX, OPERAND_SIZE, REPEAT, REPEAT_NOT };

struct reader {
	const unsigned char *code;
	size_t at, end;
	unsigned rex, kind, segments, sized, locked;
	int addressed, notrack;
};

/* Takes the prefixes; false where they are unusual. */
static int take_prefixes(struct reader *reader)
{
	for (; reader->at < reader->end; reader->at++) {
		unsigned char byte = reader->code[reader->at];

		switch (byte) {
		case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65:
			reader->segments++;
			reader->notrack = byte == 0x3e;
			continue;
		case 0x66:
			reader->sized = 1;
			continue;
		case 0x67:
			reader->addressed = 1;
			continue;
		case 0xf0:
			reader->locked = 1;
			continue;
		case 0xf2: case 0xf3:
			if (reader->kind)
				return 0;
			reader->kind = byte == 0xf3 ? REPEAT : REPEAT_NOT;
			continue;
		}
		if ((byte & 0xf0) == 0x40) {
			reader->rex = byte;
			reader->at++;
		}
		break;
	}
	if (reader->sized && reader->kind)
		return 0;
	reader->kind += reader->sized;
	return reader->at < reader->end;
}

/* Whether LOCK may stand before an instruction with an operand in memory: Intel SDM, LOCK. */
static int may_be_locked(int map, unsigned opcode, unsigned reg)
{
	if (map == 0)
		return (opcode < 0x38 && (opcode & 7) < 2) ||
		       ((opcode == 0x80 || opcode == 0x81 || opcode == 0x83) && reg != 7) ||
		       opcode == 0x86 || opcode == 0x87 ||
		       ((opcode == 0xf6 || opcode == 0xf7) && (reg == 2 || reg == 3)) ||
		       ((opcode == 0xfe || opcode == 0xff) && reg < 2);
	return opcode == 0xab || opcode == 0xb3 || opcode == 0xbb || opcode == 0xb0 ||
	       opcode == 0xb1 || opcode == 0xc0 || opcode == 0xc1 ||
	       (opcode == 0xba && reg > 4) || (opcode == 0xc7 && reg == 1);
}

static int64_t signed_at(const unsigned char *code, size_t size)
{
	int64_t value = 0;

	memcpy(&value, code, size); /* little-endian, as the machine's code */
	return size && size < 8 && value >> (8 * size - 1) & 1
		       ? value - ((int64_t)1 << 8 * size) : value;
}

static int take_bytes(struct reader *reader, size_t size, int64_t *into)
{
	if (reader->end - reader->at < size)
		return 0;
	*into = signed_at(reader->code + reader->at, size);
	reader->at += size;
	return 1;
}

/* Takes the ModRM byte and what addresses memory: Intel SDM volume 2, 2.1.5, tables 2-2, 2-3. */
static int take_operands(struct reader *reader, struct instruction *into)
{
	unsigned mode, base;

	if (reader->at >= reader->end)
		return 0;
	mode = reader->code[reader->at] >> 6;
	into->has_modrm = 1;
	into->reg = reader->code[reader->at] >> 3 & 7;
	into->rm = reader->code[reader->at++] & 7;
	if (mode == 3)
		return 1;
	into->in_memory = 1;
	base = into->rm;
	if (base == 4) {
		if (reader->at >= reader->end)
			return 0;
		into->indexed = (reader->code[reader->at] >> 3 & 7) != 4 || reader->rex & REX_X;
		if (into->indexed)
			into->index = (int8_t)((reader->code[reader->at] >> 3 & 7) |
					       (reader->rex & REX_X ? 8 : 0));
		into->scale = (int8_t)(1 << (reader->code[reader->at] >> 6));
		base = reader->code[reader->at++] & 7;
		if (base == 5 && !mode)
			return take_bytes(reader, 4, &into->displacement);
	} else if (base == 5 && !mode) {
		into->relative = 1;
		return take_bytes(reader, 4, &into->displacement);
	}
	into->base = (int8_t)(base | (reader->rex & REX_B ? 8 : 0));
	return mode == 0 || take_bytes(reader, mode == 1 ? 1 : 4, &into->displacement);
}

static size_t immediate_size(const struct reader *reader, unsigned immediate)
{
	size_t usual = reader->kind == OPERAND_SIZE && !(reader->rex & REX_W) ? 2 : 4;
	size_t sizes[] = {0, 1, 2, usual, reader->rex & REX_W ? 8 : usual, 8, 4};

	return sizes[immediate];
}

/* What the ModRM bytes of F6, F7 and FF decide; false for what is left to a full decoder. */
static int decide(struct instruction *into, struct opcode *opcode)
{
	static const uint8_t flows[8] = {FLOW_NEXT, FLOW_NEXT, FLOW_CALL_THROUGH, FLOW_UNKNOWN,
					 FLOW_JUMP_THROUGH, FLOW_UNKNOWN, FLOW_STACK, FLOW_UNKNOWN};

	opcode->operand = into->opcode == 0xf6 ? OPERAND_NONE : OPERAND_RM;
	opcode->flow = into->opcode == 0xff ? flows[into->reg] : FLOW_NEXT;
	if (into->opcode != 0xff && into->reg < 2)
		opcode->immediate = into->opcode == 0xf6 ? IMMEDIATE_BYTE : IMMEDIATE_USUAL;
	return opcode->flow != FLOW_UNKNOWN;
}

static int8_t first_register(const struct reader *reader, const struct instruction *into,
			     const struct opcode *opcode)
{
	int8_t extended = reader->rex & REX_B ? 8 : 0;

	if (opcode->operand == OPERAND_RM && !into->in_memory)
		return (int8_t)(into->rm | extended);
	if (opcode->operand == OPERAND_REG)
		return (int8_t)(into->reg | (reader->rex & REX_R ? 8 : 0));
	if (opcode->operand == OPERAND_OPCODE)
		return (int8_t)((into->opcode & 7) | extended);
	return opcode->operand == OPERAND_RAX ? 0 : NO_REGISTER;
}

static int is_endbr(const unsigned char *code, size_t left)
{
	return left >= 4 && !memcmp(code, "\xf3\x0f\x1e\xfa", 4);
}

int lbt_read_instruction(const unsigned char *code, size_t size, size_t at, uint64_t address,
			 struct instruction *into)
{
	struct reader reader = {.code = code, .at = at,
				.end = size - at > LONGEST ? at + LONGEST : size};
	struct opcode opcode;
	int map = 0;

	*into = (struct instruction){.address = address + at, .base = NO_REGISTER,
				     .index = NO_REGISTER, .first = NO_REGISTER,
				     .written = NO_REGISTER, .flow = FLOW_NEXT};
	if (is_endbr(code + at, size - at)) {
		into->next = into->address + 4;
		return 1;
	}
	if (!take_prefixes(&reader))
		return 0;
	into->opcode = code[reader.at++];
	if (into->opcode == 0x0f) {
		if (reader.at >= reader.end)
			return 0;
		map = 1;
		into->opcode = code[reader.at++];
	}
	opcode = opcodes[opcode_numbers[map ? 1 + reader.kind : 0][into->opcode]];
	if (!map && into->opcode == 0x90 && reader.kind == REPEAT) /* pause */
		opcode = (struct opcode){0xffff, 0, IMMEDIATE_NO, OPERAND_NONE, FLOW_NEXT};
	else if (!map && into->opcode == 0x90 && !(reader.rex & REX_B) && reader.kind < REPEAT)
		opcode = (struct opcode){0xffff, 0, IMMEDIATE_NO, OPERAND_NONE, FLOW_NOP};
	if (opcode.flow == FLOW_UNKNOWN)
		return 0;
	if (opcode.modrm && !take_operands(&reader, into))
		return 0;
	if (!(opcode.mask >> (into->reg + (into->has_modrm && !into->in_memory ? 8 : 0)) & 1))
		return 0;
	if (opcode.flow == FLOW_SPECIAL && (map || !decide(into, &opcode)))
		return 0;
	if (reader.locked &&
	    (!into->in_memory || reader.kind || !may_be_locked(map, into->opcode, into->reg)))
		return 0;
	if (reader.addressed && (map || (into->opcode != 0xe8 && into->opcode != 0xe9)))
		return 0;
	if (reader.kind == OPERAND_SIZE && opcode.flow == FLOW_STACK)
		return 0;
	if (!take_bytes(&reader, immediate_size(&reader, opcode.immediate), &into->immediate))
		return 0;
	if (opcode.flow == FLOW_JUMP_THROUGH && reader.segments > 1)
		return 0;
	into->next = address + reader.at;
	into->flow = opcode.flow;
	into->notrack = reader.notrack;
	into->wide = (reader.rex & REX_W) != 0;
	into->extended = (uint8_t)map;
	into->prefix = (uint8_t)reader.kind;
	into->written = first_register(&reader, into, &opcode);
	/* What pushes, pops or leads elsewhere has 64 bits anyway. */
	into->first = into->wide || opcode.flow >= FLOW_STACK ? into->written : NO_REGISTER;
	if (into->has_modrm) {
		into->reg |= reader.rex & REX_R ? 8 : 0;
		into->rm |= reader.rex & REX_B && !into->in_memory ? 8 : 0;
	}
	return 1;
}

size_t lbt_pass_over(const unsigned char *code, size_t size, size_t from, size_t to)
{
	struct instruction i;

	while (from < to && lbt_read_instruction(code, size, from, 0, &i))
		from = (size_t)i.next;
	return from;
}
