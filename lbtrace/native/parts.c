#include "parts.h"

#include <math.h>
#include <string.h>

#include <linux/types.h>

#include "lbtrace.h"

/* What was fetched at an event. */
struct lbt_fetched {
	const struct lbt_event *event;
	const struct lbt_probe_parts *probe;
	const char *blob;
	size_t size;
};

static struct lbt_fetched lbt_fetched(const struct lbt_parts *parts,
				      const struct lbt_pairing *pairing, size_t row)
{
	const struct lbt_event *event = (const struct lbt_event *)pairing->events + row;
	struct lbt_fetched fetched = { event, &parts->probes[event->probe], NULL, 0 };
	const size_t begin = pairing->blobs[row];

	if (begin + event->blob <= parts->blob_size) {
		fetched.blob = parts->blobs + begin;
		fetched.size = event->blob;
	}
	return fetched;
}

static int lbt_get_word(const struct lbt_fetched *fetched, uint32_t slot, uint64_t *word)
{
	size_t begin;

	if (slot < LBT_VALUES) {
		*word = fetched->event->values[slot];
		return 1;
	}
	begin = 8 * (slot - LBT_VALUES);
	if (begin + 8 > fetched->size)
		return 0;
	memcpy(word, fetched->blob + begin, sizeof(*word));
	return 1;
}

/* The bytes of a slot, and their number; NULL where they are not there. */
static const char *lbt_find_bytes(const struct lbt_fetched *fetched, uint32_t slot, size_t *length)
{
	size_t begin = 8 * fetched->probe->beyond;
	uint64_t word;

	for (uint32_t each = 0; each <= slot; each++) {
		if (!(fetched->probe->in_memory >> each & 1) || fetched->event->faults >> each & 1)
			continue;
		if (!lbt_get_word(fetched, each, &word))
			return NULL;
		if (each == slot) {
			*length = (uint32_t)word;
			return begin + *length <= fetched->size ? fetched->blob + begin : NULL;
		}
		begin += (uint32_t)word;
	}
	return NULL;
}

static int lbt_read_text(const struct lbt_fetched *fetched, const struct lbt_part *part,
			 struct lbt_content *content)
{
	uint64_t word;

	content->text = lbt_find_bytes(fetched, part->slot, &content->length);
	if (!content->text)
		return 0;
	if (part->form == LBT_PART_CHARACTERS) {
		if ((uint64_t)part->offset + part->size > content->length)
			return 0;
		content->text += part->offset;
		content->length = strnlen(content->text, part->size);
	} else if (!lbt_get_word(fetched, part->slot, &word) || word >> 32 != (uint32_t)word) {
		return 0; /* it was cut */
	}
	for (size_t at = 0; at < content->length; at++) {
		const char c = content->text[at];

		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			return 0;
	}
	return 1;
}

static int lbt_read_number(const struct lbt_fetched *fetched, const struct lbt_part *part,
			   uint64_t *number)
{
	size_t size = part->size, length;

	if (part->bit_size)
		size = (part->bit_offset + part->bit_size + 7) / 8;
	*number = 0;
	if (part->in_memory) {
		const char *bytes = lbt_find_bytes(fetched, part->slot, &length);

		if (!bytes || part->offset + size > length)
			return 0;
		memcpy(number, bytes + part->offset, size);
	} else {
		if (!lbt_get_word(fetched, part->slot, number))
			return 0;
		*number >>= 8 * part->offset;
	}
	if (part->bit_size) {
		const uint64_t sign = part->is_signed ? 1ull << (part->bit_size - 1) : 0;

		*number >>= part->bit_offset;
		if (part->bit_size < 64)
			*number &= (1ull << part->bit_size) - 1;
		*number = (*number ^ sign) - sign;
	}
	if (part->size < 8)
		*number &= (1ull << 8 * part->size) - 1;
	return 1;
}

/* Whether Python writes a number without an exponent. */
static int lbt_read_real(const struct lbt_part *part, struct lbt_content *content)
{
	float single;
	double size;

	if (part->size == sizeof(single)) {
		memcpy(&single, &content->number, sizeof(single));
		content->real = single;
	} else {
		memcpy(&content->real, &content->number, sizeof(content->real));
	}
	size = fabs(content->real);
	return size == 0 || (size >= 1e-4 && size < 1e16);
}

static int lbt_read_name(const struct lbt_parts *parts, const struct lbt_part *part,
			 struct lbt_content *content)
{
	const struct lbt_name *names = parts->names + part->first_name;
	size_t low = 0, high = part->name_count;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (names[middle].number < content->number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == part->name_count || names[low].number != content->number)
		return 0;
	content->text = parts->texts + names[low].text;
	content->length = names[low].length;
	return 1;
}

static int lbt_read_symbol(const struct lbt_parts *parts, const struct lbt_fetched *fetched,
			   const struct lbt_part *part, struct lbt_content *content)
{
	const uint32_t pid = fetched->event->pid;
	const struct lbt_symbol *symbol;
	size_t low = 0, high = parts->symbol_count;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		symbol = &parts->symbols[middle];
		if (symbol->pid < pid || (symbol->pid == pid && symbol->address < content->number))
			low = middle + 1;
		else
			high = middle;
	}
	symbol = &parts->symbols[low];
	if (low == parts->symbol_count || symbol->pid != pid ||
	    symbol->address != content->number || symbol->form != part->form)
		return 0;
	content->text = parts->texts + symbol->text;
	content->length = symbol->length;
	return 1;
}

static int lbt_read(const struct lbt_parts *parts, const struct lbt_fetched *fetched,
		    const struct lbt_part *part, struct lbt_content *content)
{
	if (fetched->event->faults >> part->slot & 1)
		return 0;
	if (part->form == LBT_PART_TEXT || part->form == LBT_PART_CHARACTERS)
		return lbt_read_text(fetched, part, content);
	if (!lbt_read_number(fetched, part, &content->number))
		return 0;
	if (part->form == LBT_PART_NUMBER)
		return 1;
	if (part->form == LBT_PART_NONZERO)
		return content->number != 0;
	if (part->form == LBT_PART_REAL)
		return lbt_read_real(part, content);
	if (part->form == LBT_PART_SYMBOL || part->form == LBT_PART_CLASS)
		return lbt_read_symbol(parts, fetched, part, content);
	return lbt_read_name(parts, part, content);
}

int lbt_read_part(const struct lbt_parts *parts, const struct lbt_pairing *pairing, size_t row,
		  const struct lbt_part *part, struct lbt_content *content)
{
	const struct lbt_fetched fetched = lbt_fetched(parts, pairing, row);

	return lbt_read(parts, &fetched, part, content);
}

static int lbt_is_readable(const struct lbt_parts *parts, const struct lbt_pairing *pairing,
			   size_t row)
{
	const struct lbt_fetched fetched = lbt_fetched(parts, pairing, row);
	const struct lbt_part *part = parts->parts + fetched.probe->first;
	struct lbt_content content;

	if (8u * fetched.probe->beyond > fetched.size)
		return 0;
	for (uint32_t i = 0; i < fetched.probe->count; i++)
		if (!lbt_read(parts, &fetched, part + i, &content))
			return 0;
	return 1;
}

/* Whether it is known already where the event shows that its binary is mapped. */
static int lbt_is_placed(const struct lbt_parts *parts, const struct lbt_pairing *pairing,
			 size_t row)
{
	const struct lbt_fetched fetched = lbt_fetched(parts, pairing, row);
	const struct lbt_probe_parts *probe = fetched.probe;
	uint64_t word;

	if (probe->pointer == LBT_NO_POINTER)
		return 1;
	if (!lbt_get_word(&fetched, probe->pointer, &word))
		return 0;
	for (size_t i = 0; i < parts->place_count; i++)
		if (parts->places[i].pid == fetched.event->pid &&
		    parts->places[i].binary == probe->binary)
			return parts->places[i].shift == word - probe->address;
	return 0;
}

size_t lbt_rows_for_python(const struct lbt_parts *parts, const struct lbt_pairing *pairing,
			   size_t count, uint32_t *rows)
{
	const struct lbt_event *events = (const struct lbt_event *)pairing->events;
	size_t found = 0;

	for (size_t row = 0; row < count; row++) {
		const int how = parts->probes[events[row].probe].how;

		const int shown = how != LBT_NATIVE && pairing->states[row] != LBT_HIDDEN;

		if (!lbt_is_placed(parts, pairing, row) ||
		    (shown && (how == LBT_PYTHON || !lbt_is_readable(parts, pairing, row))))
			rows[found++] = row;
	}
	return found;
}
