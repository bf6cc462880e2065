/*
 * Writes the lines of a fast batch of paired events: pieces of a template, one after the other.
 */
#ifndef LBT_LINES_H
#define LBT_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "pairing.h"
#include "parts.h"

enum {
	LBT_TEXT = 0,	     /* the text of the piece */
	LBT_ARGUMENTS = 1,   /* the arguments as Python wrote them, if it did: then no next pieces */
	LBT_RESULT = 2,	     /* the result as Python wrote it */
	LBT_PART = 3,	     /* of a value: the one of the number in skip */
	LBT_DURATION = 4,    /* for a person, 9 columns wide */
	LBT_LANE_COLUMN = 5, /* the thread or, after a g, the goroutine, 7 wide */
	LBT_PID = 6,
	LBT_TID = 7,
	LBT_DEPTH = 8,
	LBT_START = 9,	      /* in ns */
	LBT_ELAPSED = 10,     /* in ns */
	LBT_START_MICRO = 11, /* in µs */
	LBT_ELAPSED_MICRO = 12,
	LBT_LANE_NUMBER = 13, /* the thread or, more than the number in skip, the goroutine */
	LBT_GOROUTINE = 14,   /* the text and the goroutine, if there is one */
	LBT_INDENT = 15,      /* what stands before calls of the depth, with skip 1 before returns */
	LBT_LEADS_TO = 16,    /* the function to which the call jumps */
	LBT_TIME_OF_START = 17, /* of the call, in a column; as lbt_line_format says */
	LBT_TIME_OF_END = 18,
};

/* The column of times: see lbtrace/sinks/times.py. */
enum {
	LBT_TIME_CLOCK = 0,
	LBT_TIME_RELATIVE = 1,
	LBT_TIME_DELTA = 2,
};

/* How a number is written. */
enum {
	LBT_SIGNED = 1,
	LBT_HEXADECIMAL = 2,
	LBT_QUOTED = 4,
	LBT_QUOTED_IF_LARGE = 8, /* beyond the integers of a double */
	LBT_OF_RETURN = 16,	 /* from the event of the return */
	LBT_WORD = 32, /* of unknown type: hexadecimal and quoted only where it looks like an address */
};

struct lbt_piece {
	uint8_t kind;
	uint8_t flags;
	uint32_t skip; /* after LBT_ARGUMENTS and LBT_RESULT: pieces that say the same */
	uint32_t text, length;
};

struct lbt_template {
	uint32_t first, count; /* pieces */
};

/* Of a probe that opens calls. A template without pieces writes nothing. */
struct lbt_line_templates {
	struct lbt_template entry;  /* at an entry; with delayed, when something else follows it */
	struct lbt_template leaf;   /* at a return right after the entry */
	struct lbt_template returned;
	struct lbt_template tail_leaf; /* as leaf and returned, of a call that jumps elsewhere */
	struct lbt_template tail_returned;
};

/* Texts, one after the other: number n lies between ends n and n + 1. */
struct lbt_text_list {
	const char *bytes;
	const uint32_t *ends;
	size_t count;
};

struct lbt_line_format {
	const struct lbt_piece *pieces;
	const struct lbt_line_templates *templates; /* by probe */
	const char *texts;
	struct lbt_parts parts;
	struct lbt_text_list indents;  /* two for each depth */
	struct lbt_text_list leads_to; /* by probe */
	uint8_t delayed;
	uint8_t time;	     /* what a column of times shows */
	uint64_t time_shift; /* clock: is added to times; relative: is taken from them */
};

struct lbt_output {
	char *bytes;
	size_t size, capacity;
	size_t lines;
	uint64_t previous; /* the time in the last line, 0 if there is none (LBT_TIME_DELTA) */
};

/*
 * Replaces an output by the lines of the first count rows. What Python wrote: the arguments or
 * the result of a row, and the arguments of earlier calls. 0, or -ENOMEM.
 */
int lbt_write_lines(const struct lbt_line_format *format, const struct lbt_pairing *pairing,
		    size_t count, const struct lbt_text_list *rows,
		    const struct lbt_text_list *earlier, struct lbt_output *output);

/* Frees what an output holds. */
void lbt_free_output(struct lbt_output *output);

#endif
