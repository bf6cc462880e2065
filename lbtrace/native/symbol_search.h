/* Finds symbols by their names, without an object for each of the others. */
#ifndef LBT_SYMBOL_SEARCH_H
#define LBT_SYMBOL_SEARCH_H

#include "symbol_table.h"

/*
 * Each of these gives the next symbol, from a position on, that may be asked for, and the count
 * of all where there is none. Symbols that are left out are none. A position is 0, or one more than
 * that of the symbol that was found last.
 *
 * One whose name begins with name up to its end, a dot or an @; where that is not ASCII, or has a
 * backslash, those with odd names come last. SIZE_MAX where there is no memory:
 */
size_t lbt_next_named(struct lbt_symbols *symbols, size_t from, const char *name,
		      size_t size);

/* One whose name holds a part, and that has all of the flags. versions: the part may be one of a
 * version, which belongs to the names of some: */
size_t lbt_next_holding(const struct lbt_symbols *symbols, size_t from, const char *part,
			size_t size, int flags, int versions);

/* One with all of the flags, odd or not: */
size_t lbt_next_flagged(const struct lbt_symbols *symbols, size_t from, int flags);

/* Names that are looked for together. */
struct lbt_wanted;

/*
 * Whole names, without dots and @, and beginnings, each ended by NUL, all of them ASCII. In a beginning # stands for
 * a number, and * for anything: the rest is somewhere in the name. NULL where there is no memory.
 */
struct lbt_wanted *lbt_want(const char *names, size_t names_size, const char *beginnings,
			    size_t beginnings_size);
void lbt_free_wanted(struct lbt_wanted *wanted);

/* One that is wanted by its name up to a dot or an @, or by its beginning: */
size_t lbt_next_wanted(const struct lbt_symbols *symbols, size_t from,
		       const struct lbt_wanted *wanted);

#endif
