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

/* Who writes the values of a probe's rows. */
enum {
	LBT_NATIVE = 0,	       /* native code, whatever they are */
	LBT_NATIVE_IF_READ = 1, /* native code, if it can read all parts */
	LBT_PYTHON = 2,
};

struct lbt_probe_parts {
	uint32_t first, count; /* parts */
	uint16_t in_memory;    /* slots whose bytes accompany the event, bit n for slot n */
	uint8_t beyond;	       /* words that come before them */
	uint8_t how;
};

struct lbt_parts {
	const struct lbt_part *parts;
	const struct lbt_name *names;
	const struct lbt_probe_parts *probes;
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
 * The numbers of the first count rows whose values Python must write, those that are not shown
 * only with all; returns how many there are.
 */
size_t lbt_rows_for_python(const struct lbt_parts *parts, const struct lbt_pairing *pairing,
			   size_t count, int all, uint32_t *rows);

#endif
