/* Symbols of which many are at one address. */
#ifndef LBT_SYMBOL_CROWDS_H
#define LBT_SYMBOL_CROWDS_H

#include "symbol_table.h"

struct placed {
	uint64_t address;
	uint32_t position;
};

/*
 * Leaves out what no reader needs of count symbols, which are in the order of their addresses,
 * where more than a few are at one: those that are as another one in all but their size, those
 * whose names are cut because all together are too long, and what is more than 65,536
 * names. A few are kept everywhere. Gives how many are left in placed; the others get a flag. Before
 * that, the sizes are noted. SIZE_MAX where there is no memory.
 */
size_t lbt_thin_crowds(struct lbt_symbols *symbols, struct placed *placed, size_t count);

#endif
