/* Makes rows of the descriptions of frames: see unwind_rows.h. */
#include "unwind_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "unwind_frames.h"

#define LBT_MOST_RULES 16384
#define LBT_SLOTS (4 * LBT_MOST_RULES)
#define LBT_PAGE_BITS 12
#define LBT_NO_RULE 0

struct row {
	uint64_t address; /* in memory, then in the file */
	uint32_t rule;
};

struct rows {
	struct row *row;
	size_t count, capacity;
};

struct lbt_unwind_rules *lbt_unwind_rules_new(void)
{
	struct lbt_unwind_rules *rules = calloc(1, sizeof(*rules));

	if (!rules)
		return NULL;
	rules->rules = calloc(LBT_MOST_RULES, sizeof(*rules->rules));
	rules->slots = calloc(LBT_SLOTS, sizeof(*rules->slots));
	rules->count = 1;
	if (!rules->rules || !rules->slots) {
		lbt_unwind_rules_free(rules);
		return NULL;
	}
	return rules;
}

void lbt_unwind_rules_free(struct lbt_unwind_rules *rules)
{
	if (!rules)
		return;
	free(rules->rules);
	free(rules->slots);
	free(rules);
}

/* The number of a rule; that of an unknown one where there are too many. */
static uint32_t number_of(struct lbt_unwind_rules *rules, const struct lbt_unwind_rule *rule)
{
	uint64_t words[2];
	uint32_t slot;

	memcpy(words, rule, sizeof(words));
	if (!words[0] && !words[1])
		return LBT_NO_RULE;
	slot = ((words[0] * 0x9e3779b97f4a7c15ULL) ^ (words[1] * 0xc2b2ae3d27d4eb4fULL)) >> 40;
	for (;; slot++) {
		uint32_t number = rules->slots[slot %= LBT_SLOTS];

		if (number && !memcmp(&rules->rules[number], rule, sizeof(*rule)))
			return number;
		if (number)
			continue;
		if (rules->count == LBT_MOST_RULES)
			return LBT_NO_RULE;
		rules->rules[rules->count] = *rule;
		return rules->slots[slot] = rules->count++;
	}
}

static int add_row(struct rows *rows, uint64_t address, uint32_t rule)
{
	struct row *last = rows->count ? &rows->row[rows->count - 1] : NULL;

	if (last && last->address == address) {
		last->rule = rule;
		return 0;
	}
	if (last && last->rule == rule)
		return 0;
	if (lbt_reserve((char **)&rows->row, &rows->capacity, rows->count + 1, sizeof(*rows->row)))
		return -ENOMEM;
	rows->row[rows->count++] = (struct row){ address, rule };
	return 0;
}

struct collecting {
	struct lbt_unwind_rules *rules;
	struct rows *rows;
	uint64_t end; /* where the next description begins */
	uint32_t unknown;
	int error;
};

/* A row of the description that is read; it comes in order. */
static void take_row(void *data, uint64_t address, const struct lbt_unwind_rule *rule)
{
	struct collecting *to = data;

	if (address >= to->end || to->error)
		return;
	to->unknown += rule->kind == LBT_RULE_UNKNOWN;
	to->error = add_row(to->rows, address, number_of(to->rules, rule));
}

static int by_start(const void *one, const void *other)
{
	const struct lbt_frame_description *a = one, *b = other;

	return a->start < b->start ? -1 : a->start > b->start;
}

static int collect_rows(struct lbt_unwind_rules *rules, const struct lbt_frames *frames,
			struct rows *rows, uint32_t *unknown)
{
	struct collecting to = { .rules = rules, .rows = rows };
	struct lbt_frame_description *found;
	size_t count;
	int error = lbt_find_descriptions(frames, &found, &count);

	if (error)
		return error;
	qsort(found, count, sizeof(*found), by_start);
	for (size_t n = 0; n < count && !to.error; n++) {
		const uint64_t next = n + 1 < count ? found[n + 1].start : UINT64_MAX;
		const uint64_t end = found[n].start + found[n].size;

		to.end = end < next ? end : next;
		lbt_read_rows(frames, &found[n], take_row, &to);
		if (!to.error && end < next)
			to.error = add_row(rows, end, LBT_NO_RULE);
	}
	*unknown = to.unknown;
	free(found);
	return to.error;
}

/* From addresses to offsets in the file; what is in no part of the code is left out. */
static int move_rows(struct rows *rows, const struct lbt_code_part *parts, size_t count)
{
	size_t kept = 0;

	for (size_t n = 0; n < rows->count; n++) {
		const uint64_t address = rows->row[n].address;

		for (size_t p = 0; p < count; p++) {
			/* a part's end is where its last function ends */
			if (address - parts[p].address > parts[p].size)
				continue;
			rows->row[kept].address = address - parts[p].address + parts[p].offset;
			rows->row[kept].rule = rows->row[n].rule;
			if (kept && rows->row[kept].address <= rows->row[kept - 1].address)
				return -EINVAL;
			kept++;
			break;
		}
	}
	rows->count = kept;
	return 0;
}

static int lay_out(const struct rows *rows, uint32_t base, uint32_t chunk,
		   struct lbt_unwind_table *table)
{
	const uint64_t first = rows->row[0].address >> LBT_PAGE_BITS;
	const uint64_t last = rows->row[rows->count - 1].address >> LBT_PAGE_BITS;
	const uint64_t pages = last - first + 1;
	uint32_t rule = LBT_NO_RULE;
	size_t capacity, at, row = 0;

	if (pages > 1 << 22)
		return -EINVAL;
	/* a row for each, one more for each page, and what is left free before a chunk ends */
	capacity = 2 * pages + rows->count + pages;
	capacity += (capacity / chunk + 2) * ((1 << LBT_PAGE_BITS) + 1);
	table->words = malloc(capacity * sizeof(*table->words));
	if (!table->words)
		return -ENOMEM;
	at = 2 * pages;
	for (uint64_t page = 0; page < pages; page++) {
		const uint64_t start = (first + page) << LBT_PAGE_BITS;
		const uint64_t end = start + (1 << LBT_PAGE_BITS);
		size_t count = 0, stop = row;

		while (stop < rows->count && rows->row[stop].address < end)
			stop++;
		count = stop - row + !(stop > row && rows->row[row].address == start);
		if ((base + at) / chunk != (base + at + count - 1) / chunk)
			for (; (base + at) % chunk; at++)
				table->words[at] = 0;
		table->words[2 * page] = base + at;
		table->words[2 * page + 1] = count;
		if (count > stop - row)
			table->words[at++] = rule << 16;
		for (; row < stop; row++) {
			rule = rows->row[row].rule;
			table->words[at++] = (rows->row[row].address & 0xfff) | rule << 16;
		}
	}
	table->size = at;
	table->first_page = first;
	table->pages = pages;
	table->rows = rows->count;
	return 0;
}

int lbt_unwind_make(struct lbt_unwind_rules *rules, const unsigned char *frames, size_t size,
		    uint64_t address, const struct lbt_code_part *parts, size_t part_count,
		    uint32_t base, uint32_t chunk, struct lbt_unwind_table *table)
{
	const struct lbt_frames read = { frames, size, address };
	struct rows rows = { 0 };
	int error;

	memset(table, 0, sizeof(*table));
	error = collect_rows(rules, &read, &rows, &table->unknown);
	if (!error)
		error = move_rows(&rows, parts, part_count);
	if (!error && rows.count)
		error = lay_out(&rows, base, chunk, table);
	free(rows.row);
	return error;
}

void lbt_unwind_table_free(struct lbt_unwind_table *table)
{
	free(table->words);
	memset(table, 0, sizeof(*table));
}
