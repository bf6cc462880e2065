/* The names of all functions of symbol tables, one of each. */
#ifndef LBT_FUNCTION_NAMES_H
#define LBT_FUNCTION_NAMES_H

#include "symbol_table.h"

/*
 * Writes the names of the functions from a number on, each ended by NUL, as many as there is room
 * for; moves the number, and returns the bytes written. Of several names of one it is the one that
 * lbtrace/elf/functions.py chooses; empty where only Python can tell which that is, or how it
 * reads.
 */
size_t lbt_write_names(const struct lbt_symbols *symbols, size_t *from, char *into, size_t room);

#endif
