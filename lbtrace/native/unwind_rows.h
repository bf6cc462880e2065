/*
 * Where callers are found, made of .eh_frame for the BPF programs: rows that say which rule holds from
 * an address on. A row is in the lower half the last 12 bits of a file offset, in the upper one the
 * number of a rule; each page of code has rows of its own, so that rows are right in whatever process
 * maps the file, wherever. Layouts: DWARF 5, section 6.4; LSB core specification, "Exception Frames".
 */
#ifndef LBT_UNWIND_ROWS_H
#define LBT_UNWIND_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* As in bpf_src/stack/table.h, by which it is applied. */
struct lbt_unwind_rule {
	uint8_t kind;
	uint8_t bp_kind;
	uint8_t reg;
	uint8_t pad;
	int32_t offset;
	int32_t second;
	int32_t bp_offset;
};

/* The distinct rules of all files: the first one is that there is none. */
struct lbt_unwind_rules {
	struct lbt_unwind_rule *rules;
	size_t count;
	uint32_t *slots;
};

/* Code of a file: where it is in memory and in the file. */
struct lbt_code_part {
	uint64_t address;
	uint64_t offset;
	uint64_t size;
};

/*
 * The words of a table: of each page where its rows begin, counted in words, and how many there are;
 * then the rows. ``first_page`` is the number of the file's page that the first of them describes.
 */
struct lbt_unwind_table {
	uint32_t *words;
	size_t size;
	uint32_t first_page;
	uint32_t pages;
	uint32_t rows;
	uint32_t unknown;
};

struct lbt_unwind_rules *lbt_unwind_rules_new(void);
void lbt_unwind_rules_free(struct lbt_unwind_rules *rules);

/*
 * Makes the table that is to begin at word ``base``, so that no page's rows lie on both sides of a
 * multiple of ``chunk`` words. Returns 0 or an error: -EINVAL where the section is damaged.
 */
int lbt_unwind_make(struct lbt_unwind_rules *rules, const unsigned char *frames, size_t size,
		    uint64_t address, const struct lbt_code_part *parts, size_t part_count,
		    uint32_t base, uint32_t chunk, struct lbt_unwind_table *table);
void lbt_unwind_table_free(struct lbt_unwind_table *table);

#endif
