/*
 * Symbol tables of ELF files (gabi, chapter 4), read without an object for each symbol.
 *
 * Files are other people's, and may be overwritten while they are read: every offset in them
 * is checked each time it is used, and nothing outside of the given buffers is read.
 */
#ifndef LBT_SYMBOL_TABLE_H
#define LBT_SYMBOL_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define LBT_SYMBOL_SOURCES 3

/* A symbol table, its strings, and what SHT_GNU_versym says of it, if that is there. */
struct lbt_symbol_source {
	const char *symbols;
	size_t size;
	const char *strings;
	size_t strings_size;
	const char *versions;
	size_t versions_size;
};

/* Limits of names: see lbtrace/elf/strings.py. */
struct lbt_name_limits {
	size_t longest, shortened, shared, least;
};

enum {
	LBT_FUNCTION = 1,     /* STT_FUNC */
	LBT_CHOOSER = 2,      /* STT_GNU_IFUNC */
	LBT_COLD = 4,         /* a part that was split off a function */
	LBT_INSIDE = 8,       /* in code, and in no stub */
	LBT_SHORTENED = 16,   /* names have used up what they may take */
	LBT_ODD = 32,         /* its name is cut, or not ASCII: only Python knows how it reads */
	LBT_DOTTED = 64,      /* a dot or an @ stands in its name */
	LBT_VERSIONED = 128,  /* its version, which is not the default one, belongs to its name */
};

/*
 * The symbols that were taken, in the order of the tables, and those inside of code by address.
 * rows count through all sources. by_address are positions among them, functions and cold are
 * positions among by_address: the first symbol of each address at which a function, or a part of
 * one, begins.
 */
struct lbt_symbols {
	uint32_t *rows, *hashes;
	uint16_t *flags;
	size_t count;
	uint64_t *addresses;
	uint32_t *by_address;
	size_t inside;
	uint32_t *functions, *cold;
	size_t function_count, cold_count;
	uint32_t *first_named, *next_named; /* symbols by their hashes: see symbol_search.c */
	size_t buckets;
	struct lbt_symbol_source sources[LBT_SYMBOL_SOURCES];
	size_t source_count;
	struct lbt_name_limits limits;
};

/*
 * The defined symbols of type NOTYPE, FUNC and IFUNC that have a name. code and stubs are bounds:
 * starts and ends in turn. NULL where there is no memory.
 */
struct lbt_symbols *lbt_read_functions(const struct lbt_symbol_source *sources, size_t count,
				       const uint64_t *code, size_t code_count,
				       const uint64_t *stubs, size_t stub_count,
				       const struct lbt_name_limits *limits);

/* Every symbol of one table, with a name or without; not by address. */
struct lbt_symbols *lbt_read_every_symbol(const struct lbt_symbol_source *source,
					  const struct lbt_name_limits *limits);

void lbt_free_symbols(struct lbt_symbols *symbols);

/* The largest size that its symbols give a function, or a cold part of one. */
uint64_t lbt_largest_size(const struct lbt_symbols *symbols, int cold, size_t number);

/*
 * The last of the functions before the number-th, from the least-th on, that reaches over an
 * address by the size that its symbols give; the number itself where none does.
 */
size_t lbt_last_covering(const struct lbt_symbols *symbols, size_t number, size_t least,
			 uint64_t address);

/* How many of the count positions lead to an address that is not higher. */
size_t lbt_bisect_symbols(const struct lbt_symbols *symbols, const uint32_t *positions,
			  size_t count, uint64_t address);

#endif
