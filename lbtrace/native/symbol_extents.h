/* Where functions begin and end, by the symbols of a file: lbtrace/elf/functions.py. */
#ifndef LBT_SYMBOL_EXTENTS_H
#define LBT_SYMBOL_EXTENTS_H

#include <string.h>

#include "symbol_table.h"

/* The function, or cold part of one, that holds an address; its end is 0 where none does. */
struct extent {
	uint64_t address, start, end;
	int cold;
};

/* How many of the count positions in a list lead to an address that is not higher. */
static inline size_t bisect_addresses(const uint64_t *addresses, const uint32_t *positions,
				      size_t count, uint64_t address)
{
	size_t low = 0;

	while (count) {
		size_t half = count / 2, at = low + half;

		if (addresses[positions ? positions[at] : at] <= address) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}

/* The size that a symbol gives: st_size of Elf64_Sym (gabi, chapter 4). */
static inline uint64_t size_of_symbol(const struct lbt_symbols *symbols, uint32_t position)
{
	size_t row = symbols->rows[position];
	uint64_t size = 0;

	for (size_t each = 0; each < symbols->source_count; each++) {
		size_t rows = symbols->sources[each].size / 24;

		if (row < rows) {
			memcpy(&size, symbols->sources[each].symbols + row * 24 + 16, sizeof(size));
			break;
		}
		row -= rows;
	}
	return size;
}

/* The largest size that its symbols give a function, or a cold part of one. */
static inline uint64_t largest_size(const struct lbt_symbols *symbols, int cold, size_t number)
{
	const uint32_t *group = cold ? symbols->cold : symbols->functions;
	unsigned kind = (cold ? LBT_COLD : LBT_FUNCTION) | LBT_INSIDE;
	unsigned mask = cold ? LBT_COLD | LBT_INSIDE : LBT_FUNCTION | LBT_COLD | LBT_INSIDE;
	uint64_t size = 0;

	for (size_t at = group[number]; at < symbols->inside; at++) {
		uint32_t position = symbols->by_address[at];
		uint64_t given;

		if (symbols->addresses[at] != symbols->addresses[group[number]])
			break;
		if ((symbols->flags[position] & mask) != kind)
			continue;
		given = size_of_symbol(symbols, position);
		size = given > size ? given : size;
	}
	return size;
}

#endif
