/*
 * Reads the parts of values that are written the same way whatever they are: numbers, names of
 * numbers, texts without a character that any format would escape. Rows with another part are
 * left to Python.
 */
#ifndef LBT_PARTS_H
#define LBT_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "pairing.h"

enum {
	LBT_PART_NUMBER = 0,
	LBT_PART_REAL = 1,  /* a float or double */
	LBT_PART_TEXT = 2,  /* printable ASCII without quotation marks and backslashes, not cut */
	LBT_PART_NAME = 3,  /* the name of a number */
	LBT_PART_CHARACTERS = 4, /* as a text, up to the first NUL or to the end of its bytes */
	LBT_PART_NONZERO = 5, /* a number; 0 is Python's */
	LBT_PART_SYMBOL = 6, /* the function at an address */
	LBT_PART_CLASS = 7,  /* the class whose table of virtual functions is there */
};

/* See struct lbt_event in bpf_src/wire.h, and Value in lbtrace/values/base.py. */
struct lbt_part {
	uint8_t form;
	uint8_t slot;
	uint8_t in_memory; /* it lies in bytes that accompany the event, from offset on */
	uint8_t is_signed;
	uint8_t bit_offset, bit_size;
	uint32_t size;	   /* in bytes */
	uint32_t offset;
	uint32_t first_name, name_count; /* names in the order of their numbers */
};

struct lbt_name {
	uint64_t number;
	uint32_t text, length;
};

/* What lies at an address of a process, by its form. In the order of processes and addresses. */
struct lbt_symbol {
	uint64_t address;
	uint32_t pid;
	uint32_t text, length;
	uint8_t form;
};

/* Where a process has mapped a binary. */
struct lbt_place {
	uint64_t shift;
	uint32_t pid, binary;
};

/* Who writes the values of a probe's rows. */
enum {
	LBT_NATIVE = 0,	       /* native code, whatever they are */
	LBT_NATIVE_IF_READ = 1, /* native code, if it can read all parts */
	LBT_PYTHON = 2,
};

enum { LBT_NO_POINTER = 0xff };

struct lbt_probe_parts {
	uint32_t first, count; /* parts */
	uint16_t in_memory;    /* slots whose bytes accompany the event, bit n for slot n */
	uint8_t beyond;	       /* words that come before them */
	uint8_t how;
	uint8_t pointer; /* the slot of the instruction pointer, LBT_NO_POINTER without one */
	uint32_t binary;
	uint64_t address; /* of the probe in it */
};

struct lbt_parts {
	const struct lbt_part *parts;
	const struct lbt_name *names;
	const struct lbt_probe_parts *probes;
	const struct lbt_symbol *symbols;
	const struct lbt_place *places;
	size_t symbol_count, place_count;
	const char *texts;
	const char *blobs;
	size_t blob_size;
};

struct lbt_content {
	uint64_t number;
	double real;
	const char *text;
	size_t length;
};

/* Reads a part of a row's values; false where only Python can say what it is. */
int lbt_read_part(const struct lbt_parts *parts, const struct lbt_pairing *pairing, size_t row,
		  const struct lbt_part *part, struct lbt_content *content);

/*
 * The numbers of the first count rows whose values Python must write, or which show that a binary
 * lies elsewhere than it is known to; returns how many there are.
 */
size_t lbt_rows_for_python(const struct lbt_parts *parts, const struct lbt_pairing *pairing,
			   size_t count, uint32_t *rows);

#endif
