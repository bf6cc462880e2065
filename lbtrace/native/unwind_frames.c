/*
 * Reads the descriptions of frames. Layouts: DWARF 5, section 6.4.2; LSB core specification,
 * "Exception Frames".
 */
#include "unwind_state.h"

#include <errno.h>
#include <stdlib.h>

#include "array.h"

#define REMEMBERED 8 /* states, at most */

struct common {
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t encoding;
	uint8_t signal;
	uint8_t augmented;
	const unsigned char *instructions, *end;
};
/* DW_EH_PE_*: a pointer, relative to where it is or absolute. */
static uint64_t pointer(struct reader *from, uint8_t encoding, const struct lbt_frames *frames,
			int relative)
{
	const uint64_t place = frames->address + (from->at - frames->data);
	uint64_t value;

	switch (encoding & 0x0f) {
	case 0x00: case 0x04: case 0x0c: value = fixed(from, 8); break;
	case 0x02: value = fixed(from, 2); break;
	case 0x03: value = fixed(from, 4); break;
	case 0x0a: value = (int16_t)fixed(from, 2); break;
	case 0x0b: value = (int32_t)fixed(from, 4); break;
	default: from->failed = 1; return 0;
	}
	if (!relative)
		return value;
	if ((encoding & 0x70) == 0x10)
		return value + place;
	if (encoding & 0xf0)
		from->failed = 1;
	return value;
}

/* The extent of the record at a place: its contents behind the length; 0 at the end. */
static int record_at(const struct lbt_frames *frames, size_t at, struct reader *record)
{
	struct reader head = { frames->data + at, frames->data + frames->size, 0 };
	uint64_t length;

	if (frames->size - at < 4)
		return 0;
	length = fixed(&head, 4);
	if (length == 0xffffffff)
		length = fixed(&head, 8);
	if (!length || head.failed || length > (uint64_t)(head.end - head.at))
		return 0;
	*record = (struct reader){ head.at, head.at + length, 0 };
	return 1;
}

static int read_common(const struct lbt_frames *frames, size_t at, struct common *common)
{
	struct reader record, inner;
	const unsigned char *letters;
	uint8_t version;

	memset(common, 0, sizeof(*common));
	if (at >= frames->size || !record_at(frames, at, &record) || fixed(&record, 4))
		return -EINVAL;
	version = fixed(&record, 1);
	letters = record.at;
	while (!record.failed && fixed(&record, 1))
		;
	if (version == 4)
		fixed(&record, 2);
	common->code_factor = uleb(&record);
	common->data_factor = sleb(&record);
	if (version == 1 ? fixed(&record, 1) != RIP : uleb(&record) != RIP)
		record.failed = 1;
	if (record.failed)
		return -EINVAL;
	if (*letters == 'z') {
		const uint64_t size = uleb(&record);

		if (record.failed || size > (uint64_t)(record.end - record.at))
			return -EINVAL;
		inner = (struct reader){ record.at, record.at + size, 0 };
		record.at += size;
		common->augmented = 1;
		for (letters++; *letters; letters++) {
			if (*letters == 'R')
				common->encoding = fixed(&inner, 1);
			else if (*letters == 'P')
				pointer(&inner, fixed(&inner, 1), frames, 0);
			else if (*letters == 'L')
				fixed(&inner, 1);
			else if (*letters == 'S')
				common->signal = 1;
			else
				break;
		}
	} else if (*letters) {
		return -EINVAL;
	}
	common->instructions = record.at;
	common->end = record.end;
	return 0;
}

/* Reads what a description is about; its instructions are left. */
static int read_description(const struct lbt_frames *frames, struct reader *record,
			    const struct common *common, struct lbt_frame_description *into)
{
	into->start = pointer(record, common->encoding, frames, 1);
	into->size = pointer(record, common->encoding, frames, 0);
	if (common->augmented) {
		const uint64_t size = uleb(record);

		if (size > (uint64_t)(record->end - record->at))
			return -EINVAL;
		record->at += size;
	}
	return record->failed ? -EINVAL : 0;
}

int lbt_find_descriptions(const struct lbt_frames *frames, struct lbt_frame_description **found,
			  size_t *count)
{
	size_t capacity = 0, known = SIZE_MAX;
	struct common common = { 0 };
	int usable = 0;
	struct reader record;

	*found = NULL;
	*count = 0;
	for (size_t at = 0; at < frames->size && record_at(frames, at, &record);
	     at = record.end - frames->data) {
		const size_t place = record.at - frames->data;
		const uint32_t back = fixed(&record, 4);
		struct lbt_frame_description next = { .at = at };

		if (!back || record.failed)
			continue;
		if (back > place)
			continue;
		next.common = place - back;
		if (next.common != known) {
			known = next.common;
			usable = !read_common(frames, known, &common);
		}
		if (!usable || read_description(frames, &record, &common, &next) || !next.size)
			continue;
		if (lbt_reserve((char **)found, &capacity, *count + 1, sizeof(**found))) {
			free(*found);
			return -ENOMEM;
		}
		(*found)[(*count)++] = next;
	}
	return 0;
}
static struct place *place_of(struct state *state, uint64_t reg)
{
	return reg == RBP ? &state->bp : reg == RIP ? &state->ip : NULL;
}

static void set_place(struct state *state, uint64_t reg, int how, int64_t offset)
{
	struct place *place = place_of(state, reg);

	if (place)
		*place = (struct place){ .how = how, .offset = offset };
}

static const unsigned char *block(struct reader *from, size_t *size)
{
	const unsigned char *start;

	*size = uleb(from);
	start = from->at;
	if (*size > (size_t)(from->end - from->at))
		from->failed = 1;
	else
		from->at += *size;
	return start;
}

struct run {
	const struct lbt_frames *frames;
	const struct common *common;
	struct state now, initial, remembered[REMEMBERED];
	unsigned depth;
	uint64_t address;
	void (*take)(void *data, uint64_t address, const struct lbt_unwind_rule *rule);
	void *data;
};

static void advance(struct run *run, uint64_t by)
{
	const struct lbt_unwind_rule rule = lbt_rule_of(&run->now, run->common->signal);

	run->take(run->data, run->address, &rule);
	run->address += by * run->common->code_factor;
}

/* Carries out one instruction: DW_CFA_*. */
static void step(struct run *run, struct reader *from)
{
	const uint8_t code = fixed(from, 1);
	struct state *now = &run->now;
	const int64_t factor = run->common->data_factor;
	struct place *place;
	uint64_t reg;
	size_t size;

	switch (code >> 6) {
	case 1: advance(run, code & 0x3f); return;
	case 2: set_place(now, code & 0x3f, AT_CFA, uleb(from) * factor); return;
	case 3:
		if ((place = place_of(now, code & 0x3f)))
			*place = *place_of(&run->initial, code & 0x3f);
		return;
	}
	switch (code) {
	case 0x00: return;
	case 0x01: {
		const uint64_t to = pointer(from, run->common->encoding, run->frames, 1);

		advance(run, 0);
		run->address = to;
		return;
	}
	case 0x02: advance(run, fixed(from, 1)); return;
	case 0x03: advance(run, fixed(from, 2)); return;
	case 0x04: advance(run, fixed(from, 4)); return;
	case 0x05: reg = uleb(from); set_place(now, reg, AT_CFA, uleb(from) * factor); return;
	case 0x06:
		if ((place = place_of(now, reg = uleb(from))))
			*place = *place_of(&run->initial, reg);
		return;
	case 0x07: set_place(now, uleb(from), UNDEFINED, 0); return;
	case 0x08: set_place(now, uleb(from), SAME, 0); return;
	case 0x09: reg = uleb(from); uleb(from); set_place(now, reg, OTHER, 0); return;
	case 0x0a:
		if (run->depth == REMEMBERED)
			from->failed = 1;
		else
			run->remembered[run->depth++] = *now;
		return;
	case 0x0b:
		if (!run->depth)
			from->failed = 1;
		else
			*now = run->remembered[--run->depth];
		return;
	case 0x0c:
	case 0x12:
		now->cfa_register = uleb(from);
		now->cfa_offset = code == 0x0c ? (int64_t)uleb(from) : sleb(from) * factor;
		now->expression = NULL;
		return;
	case 0x0d: now->cfa_register = uleb(from); now->expression = NULL; return;
	case 0x0e: now->cfa_offset = uleb(from); return;
	case 0x13: now->cfa_offset = sleb(from) * factor; return;
	case 0x0f: now->expression = block(from, &now->size); return;
	case 0x10:
	case 0x16: {
		const unsigned char *start;

		reg = uleb(from);
		start = block(from, &size);
		if ((place = place_of(now, reg)))
			*place = (struct place){ .how = code == 0x10 ? EXPRESSION : OTHER,
						 .expression = start, .size = size };
		return;
	}
	case 0x11: reg = uleb(from); set_place(now, reg, AT_CFA, sleb(from) * factor); return;
	case 0x14: reg = uleb(from); uleb(from); set_place(now, reg, OTHER, 0); return;
	case 0x15: reg = uleb(from); sleb(from); set_place(now, reg, OTHER, 0); return;
	case 0x2e: uleb(from); return; /* DW_CFA_GNU_args_size */
	case 0x2f: reg = uleb(from); set_place(now, reg, AT_CFA, -(int64_t)uleb(from) * factor); return;
	default: from->failed = 1;
	}
}

static int carry_out(struct run *run, struct reader from)
{
	while (from.at < from.end && !from.failed)
		step(run, &from);
	return from.failed;
}

static void take_none(void *data, uint64_t address, const struct lbt_unwind_rule *rule)
{
	(void)data, (void)address, (void)rule;
}

void lbt_read_rows(const struct lbt_frames *frames, const struct lbt_frame_description *of,
		   void (*take)(void *data, uint64_t address, const struct lbt_unwind_rule *rule),
		   void *data)
{
	static const struct lbt_unwind_rule unknown = { .kind = LBT_RULE_UNKNOWN };
	struct lbt_frame_description again;
	struct common common;
	struct reader record;
	struct run run = { .frames = frames, .common = &common, .take = take_none, .data = data };
	int failed;

	if (read_common(frames, of->common, &common) || !record_at(frames, of->at, &record))
		return;
	fixed(&record, 4);
	if (read_description(frames, &record, &common, &again))
		return;
	failed = carry_out(&run, (struct reader){ common.instructions, common.end, 0 });
	run.initial = run.now;
	run.take = take;
	run.address = of->start;
	run.depth = 0;
	if (!failed)
		failed = carry_out(&run, record);
	if (failed)
		take(data, run.address, &unknown);
	else
		advance(&run, 0);
}
