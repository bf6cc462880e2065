#include "lines.h"

#include <linux/types.h>

#include "lbtrace.h"
#include "put.h"

#define LBT_LARGE (1ull << 53)

/* What the pieces of a line are about. */
struct lbt_line {
	const struct lbt_line_format *format;
	const struct lbt_pairing *pairing;
	const struct lbt_text_list *arguments; /* one of them has the number call */
	const struct lbt_text_list *results;   /* row */
	const struct lbt_event *entry; /* NULL: the call was open before */
	const struct lbt_event *event; /* the return, or of a call without one, the entry */
	uint64_t start;
	uint32_t tid;
	uint32_t depth;
	size_t call;
	size_t row;
};

static int lbt_put_lane_column(const struct lbt_line *line, struct lbt_output *output)
{
	char text[LBT_LONGEST], *end = text + sizeof(text), *begin;

	begin = lbt_digits(end, line->event->lane ? line->event->lane : line->tid);
	if (line->event->lane)
		*--begin = 'g';
	return lbt_put_right(output, begin, end - begin, 7, end - begin);
}

/* Whether a word of unknown type looks like an address: see lbtrace/values/word.py. */
static int lbt_is_address(uint64_t number, int is_signed)
{
	if (is_signed)
		return (number >= 0x500000000000 && number < 1ull << 48) ||
		       (number >= 1ull << 31 && number < 1ull << 32);
	return number >= 1ull << 16;
}

/* A number of this many bytes, of which those above are ignored. */
static int lbt_put_integer(struct lbt_output *output, uint64_t number, size_t size, int flags)
{
	int negative, quoted, error;

	if (size < 8)
		number &= (1ull << 8 * size) - 1;
	if (flags & LBT_WORD) {
		if (lbt_is_address(number, flags & LBT_SIGNED))
			flags |= LBT_HEXADECIMAL;
		else
			flags &= ~LBT_QUOTED;
	}
	negative = flags & LBT_SIGNED && !(flags & LBT_HEXADECIMAL) &&
		   number >> (8 * size - 1) & 1;
	if (negative) {
		if (size < 8)
			number |= ~0ull << 8 * size;
		number = 0 - number;
	}
	quoted = flags & LBT_QUOTED || (flags & LBT_QUOTED_IF_LARGE &&
					!(flags & LBT_HEXADECIMAL) && number > LBT_LARGE);
	error = (quoted && lbt_put(output, "\"", 1)) || (negative && lbt_put(output, "-", 1));
	error = error || (flags & LBT_HEXADECIMAL ? lbt_put_hexadecimal(output, number)
						  : lbt_put_number(output, number));
	return error || (quoted && lbt_put(output, "\"", 1));
}

static int lbt_put_part(const struct lbt_line *line, struct lbt_output *output,
			const struct lbt_piece *piece)
{
	const struct lbt_parts *parts = &line->format->parts;
	const struct lbt_part *part = &parts->parts[piece->skip];
	struct lbt_content content;

	if (!lbt_read_part(parts, line->pairing, piece->flags & LBT_OF_RETURN ? line->row : line->call,
			   part, &content))
		return 0; /* such a row is Python's */
	if (part->form == LBT_PART_NUMBER || part->form == LBT_PART_NONZERO)
		return lbt_put_integer(output, content.number, part->size, piece->flags);
	if (part->form == LBT_PART_REAL)
		return lbt_put_real(output, content.real);
	return lbt_put(output, content.text, content.length);
}

/* A text of Python's. */
static int lbt_put_text(struct lbt_output *output, const struct lbt_text_list *values, size_t number)
{
	if (number >= values->count)
		return 0;
	return lbt_put(output, values->bytes + values->ends[number],
		       values->ends[number + 1] - values->ends[number]);
}

/* Whether Python did not write a text. */
static int lbt_lacks(const struct lbt_text_list *values, size_t number)
{
	return number >= values->count || values->ends[number] == values->ends[number + 1];
}

static int lbt_put_time(const struct lbt_line *line, struct lbt_output *output, uint64_t time)
{
	const struct lbt_line_format *format = line->format;
	uint64_t since = format->time_shift;

	if (format->time == LBT_TIME_CLOCK)
		return lbt_put_clock(output, time + format->time_shift);
	if (format->time == LBT_TIME_DELTA) {
		since = output->previous ? output->previous : time;
		output->previous = time;
	}
	return lbt_put_seconds(output, time < since ? since - time : time - since, time < since);
}

/* Pieces that need no more than the line. */
static int lbt_put_piece(const struct lbt_line *line, struct lbt_output *output,
			 const struct lbt_piece *piece)
{
	switch (piece->kind) {
	case LBT_TEXT:
		return lbt_put(output, line->format->texts + piece->text, piece->length);
	case LBT_PART:
		return lbt_put_part(line, output, piece);
	case LBT_DURATION:
		return lbt_put_duration(output, line->event->time - line->start);
	case LBT_LANE_COLUMN:
		return lbt_put_lane_column(line, output);
	case LBT_PID:
		return lbt_put_number(output, line->event->pid);
	case LBT_TID:
		return lbt_put_number(output, line->tid);
	case LBT_DEPTH:
		return lbt_put_number(output, line->depth);
	case LBT_START:
		return lbt_put_number(output, line->start);
	case LBT_ELAPSED:
		return lbt_put_number(output, line->event->time - line->start);
	case LBT_START_MICRO:
		return lbt_put_micro(output, line->start);
	case LBT_ELAPSED_MICRO:
		return lbt_put_micro(output, line->event->time - line->start);
	case LBT_LANE_NUMBER:
		return lbt_put_number(output, line->event->lane
						      ? line->event->lane + piece->skip
						      : line->tid);
	case LBT_GOROUTINE:
		if (!line->event->lane)
			return 0;
		return lbt_put(output, line->format->texts + piece->text, piece->length) ||
		       lbt_put_number(output, line->event->lane);
	case LBT_LEADS_TO:
		return lbt_put_text(output, &line->format->leads_to, line->event->probe);
	case LBT_TIME_OF_START:
		return lbt_put_time(line, output, line->start);
	case LBT_TIME_OF_END:
		return lbt_put_time(line, output, line->event->time);
	case LBT_INDENT:
		return lbt_put_text(output, &line->format->indents, 2 * line->depth + piece->skip);
	default:
		return 0;
	}
}

static int lbt_put_line(const struct lbt_line *line, struct lbt_output *output,
			const struct lbt_template *template)
{
	const struct lbt_piece *pieces = line->format->pieces + template->first;

	for (uint32_t i = 0; i < template->count; i++) {
		const struct lbt_piece *piece = &pieces[i];
		int error = 0;

		if (piece->kind == LBT_ARGUMENTS) {
			if (line->entry && piece->skip && lbt_lacks(line->arguments, line->call))
				continue;
			error = lbt_put_text(output, line->arguments, line->call);
			i += piece->skip;
		} else if (piece->kind == LBT_RESULT) {
			if (piece->skip && lbt_lacks(line->results, line->row))
				continue;
			error = lbt_put_text(output, line->results, line->row);
			i += piece->skip;
		} else {
			error = lbt_put_piece(line, output, piece);
		}
		if (error)
			return -ENOMEM;
	}
	output->lines += template->count != 0;
	return 0;
}

/* The line that a row has, if any: which template, and about which call. */
static const struct lbt_template *lbt_choose(const struct lbt_line_format *format,
					     const struct lbt_pairing *pairing, size_t row,
					     int32_t *call, struct lbt_line *line)
{
	const struct lbt_event *event = (const struct lbt_event *)pairing->events + row;
	const struct lbt_pair_probe *probe = &pairing->probes[event->probe];
	const int after_entry = pairing->states[row] == LBT_AFTER_ENTRY;

	line->depth = pairing->depths[row];
	*call = pairing->calls[row];
	if (probe->role == LBT_ROLE_TAIL)
		return after_entry ? &format->templates[probe->entry].tail_leaf
				   : &format->templates[probe->entry].tail_returned;
	if (probe->role == LBT_ROLE_CLOSES || probe->role == LBT_ROLE_GOES_ON)
		return after_entry ? &format->templates[probe->entry].leaf
				   : &format->templates[probe->entry].returned;
	if (!format->delayed) {
		*call = row;
		return &format->templates[event->probe].entry;
	}
	if (!after_entry || *call == LBT_NO_CALL)
		return NULL;
	line->depth--; /* the line is that of the call around */
	if (*call >= 0)
		event = (const struct lbt_event *)pairing->events + *call;
	return &format->templates[*call >= 0 ? event->probe
					     : pairing->earlier[-1 - *call].probe].entry;
}

int lbt_write_lines(const struct lbt_line_format *format, const struct lbt_pairing *pairing,
		    size_t count, const struct lbt_text_list *rows,
		    const struct lbt_text_list *earlier, struct lbt_output *output)
{
	const struct lbt_event *events = (const struct lbt_event *)pairing->events;

	output->size = output->lines = 0;
	for (size_t row = 0; row < count; row++) {
		struct lbt_line line = { .format = format, .pairing = pairing, .results = rows, .row = row };
		const struct lbt_template *template;
		int32_t call;

		if (pairing->states[row] == LBT_HIDDEN)
			continue;
		template = lbt_choose(format, pairing, row, &call, &line);
		if (!template || !template->count)
			continue;
		line.event = &events[row];
		if (call >= 0) {
			line.entry = &events[call];
			line.start = line.entry->time;
			line.tid = line.entry->tid;
			line.arguments = rows;
			line.call = call;
		} else {
			line.start = pairing->earlier[-1 - call].start;
			line.tid = pairing->earlier[-1 - call].tid;
			line.arguments = earlier;
			line.call = -1 - call;
		}
		if (lbt_put_line(&line, output, template))
			return -ENOMEM;
	}
	return 0;
}

void lbt_free_output(struct lbt_output *output)
{
	free(output->bytes);
	output->bytes = NULL;
	output->size = output->capacity = output->lines = 0;
}
