/* Reads .eh_frame of x86-64: for unwind_rows.c. */
#ifndef LBT_UNWIND_FRAMES_H
#define LBT_UNWIND_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "unwind_rows.h"

/* enum lbt_rule of bpf_src/stack/table.h. */
enum lbt_rule {
	LBT_RULE_NONE,
	LBT_RULE_END,
	LBT_RULE_SP,
	LBT_RULE_BP,
	LBT_RULE_REGISTER,
	LBT_RULE_PLT,
	LBT_RULE_AT_SP,
	LBT_RULE_AT_BP,
	LBT_RULE_SIGNAL,
	LBT_RULE_UNKNOWN,
};

enum lbt_bp_rule {
	LBT_BP_SAME,
	LBT_BP_SAVED,
	LBT_BP_AT_BP,
	LBT_BP_UNDEFINED,
};

struct lbt_frames {
	const unsigned char *data;
	size_t size;
	uint64_t address; /* of the section */
};

/* An FDE: the code it is about, and where it and its CIE begin. */
struct lbt_frame_description {
	uint64_t start;
	uint64_t size;
	uint32_t at;
	uint32_t common;
};

/* Finds all descriptions, to be freed by the caller. -EINVAL where the section is damaged. */
int lbt_find_descriptions(const struct lbt_frames *frames, struct lbt_frame_description **found,
			  size_t *count);

/* Hands on the rows of a description, in order. What cannot be read is an unknown rule. */
void lbt_read_rows(const struct lbt_frames *frames, const struct lbt_frame_description *of,
		   void (*take)(void *data, uint64_t address, const struct lbt_unwind_rule *rule),
		   void *data);

#endif
