/* Tables of relocations (gabi, chapter 4, SHT_RELA): which symbols they name, which are of a kind. */
#ifndef LBT_RELOCATIONS_H
#define LBT_RELOCATIONS_H

#include "symbol_table.h"

/* Notes of the symbols that relocations (SHT_RELA) name that they do. */
void lbt_note_relocated(struct lbt_symbols *symbols, const char *relocations, size_t size);

/* The next relocation, from one on, of one of up to three kinds; their count without. */
size_t lbt_next_relocation(const char *relocations, size_t size, size_t from,
			   const uint32_t kinds[3]);

/* One more than the highest symbol that relocations name. */
size_t lbt_relocated_symbols(const char *relocations, size_t size);

#endif
