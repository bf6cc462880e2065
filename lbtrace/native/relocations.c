/* Tables of relocations: see relocations.h. */
#include "relocations.h"

#include <string.h>

struct relocation { /* Elf64_Rela */
	uint64_t offset, info;
	int64_t addend;
};

static struct relocation relocation_at(const char *relocations, size_t at)
{
	struct relocation relocation;

	memcpy(&relocation, relocations + at * sizeof(relocation), sizeof(relocation));
	return relocation;
}

void lbt_note_relocated(struct lbt_symbols *symbols, const char *relocations, size_t size)
{
	for (size_t at = 0; at < size / sizeof(struct relocation); at++) {
		uint64_t symbol = relocation_at(relocations, at).info >> 32;

		if (symbol && symbol < symbols->count)
			symbols->flags[symbol] |= LBT_RELOCATED;
	}
}

size_t lbt_next_relocation(const char *relocations, size_t size, size_t from,
			   const uint32_t kinds[3])
{
	size_t count = size / sizeof(struct relocation);

	for (; from < count; from++) {
		uint32_t kind = (uint32_t)relocation_at(relocations, from).info;

		if (kind == kinds[0] || kind == kinds[1] || kind == kinds[2])
			return from;
	}
	return count;
}

size_t lbt_relocated_symbols(const char *relocations, size_t size)
{
	uint64_t highest = 0;

	for (size_t at = 0; at < size / sizeof(struct relocation); at++) {
		uint64_t symbol = (relocation_at(relocations, at).info >> 32) + 1;

		highest = symbol > highest ? symbol : highest;
	}
	return highest;
}
