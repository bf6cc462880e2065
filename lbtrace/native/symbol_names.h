/* The symbols of a table and their names, as they stand in the file. */
#ifndef LBT_SYMBOL_NAMES_H
#define LBT_SYMBOL_NAMES_H

#include <string.h>

#include "symbol_table.h"

struct symbol { /* Elf64_Sym */
	uint32_t name;
	unsigned char info, other;
	uint16_t section;
	uint64_t value, size;
};

struct name {
	const char *text;
	size_t size;
	int cut;
};

static inline int is_digit(char c) { return c >= '0' && c <= '9'; }

static inline struct symbol symbol_at(const struct lbt_symbol_source *source, size_t row)
{
	struct symbol symbol;

	memcpy(&symbol, source->symbols + row * sizeof(symbol), sizeof(symbol));
	return symbol;
}

/* The name at an offset; empty where it lies outside of the table or has no end there. */
static inline struct name name_at(const struct lbt_symbol_source *source, size_t offset, size_t longest)
{
	struct name name = {.text = "", .size = 0};
	size_t room, looked;
	const char *end;

	if (offset >= source->strings_size)
		return name;
	room = source->strings_size - offset;
	looked = room <= longest ? room : longest + 1;
	end = memchr(source->strings + offset, 0, looked);
	if (!end && room <= longest)
		return name;
	name.text = source->strings + offset;
	name.size = end ? (size_t)(end - name.text) : longest;
	name.cut = !end;
	return name;
}

/* How much of a name stands before the first dot or @. */
static inline size_t stem_size(const char *text, size_t size)
{
	for (size_t i = 1; i < size; i++)
		if (text[i] == '.' || text[i] == '@')
			return i;
	return size;
}

/* Of its beginning, its end and its size: names that differ elsewhere are compared. */
static inline uint32_t hash_of(const char *text, size_t size)
{
	uint64_t first = 0, last = 0, mixed;
	size_t part = size < 8 ? size : 8;

	memcpy(&first, text, part);
	memcpy(&last, text + size - part, part);
	mixed = (first ^ size * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
	mixed = (mixed ^ mixed >> 32 ^ last) * 0xc4ceb9fe1a85ec53u;
	return (uint32_t)(mixed >> 32);
}

static inline struct symbol symbol_of(const struct lbt_symbols *symbols, size_t position, size_t *source)
{
	size_t row = symbols->rows[position];

	for (*source = 0; *source + 1 < symbols->source_count; ++*source) {
		size_t rows = symbols->sources[*source].size / sizeof(struct symbol);

		if (row < rows)
			break;
		row -= rows;
	}
	return symbol_at(&symbols->sources[*source], row);
}

static inline struct name name_of(const struct lbt_symbols *symbols, size_t position)
{
	size_t source, longest = symbols->flags[position] & LBT_SHORTENED
					 ? symbols->limits.shortened
					 : symbols->limits.longest;
	struct symbol symbol = symbol_of(symbols, position, &source);

	return name_at(&symbols->sources[source], symbol.name, longest);
}

#endif
