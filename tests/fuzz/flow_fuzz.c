/*
 * The following of x86-64 code under libFuzzer and the sanitizers: any bytes, in copies of their
 * own so that nothing beside them is read, and any answers to what it asks.
 */
#include "epilogues.h"

#include <stdlib.h>
#include <string.h>

enum { START = 0x400000, APART = 0x400080, RUNS = 3000 };

static unsigned char *copy(const unsigned char *data, size_t size)
{
	unsigned char *code = malloc(size ? size : 1);

	memcpy(code, data, size);
	return code;
}

/* Follows all that is to be followed. */
static struct lbt_found run(struct lbt_flow *flow, const unsigned char *part, size_t size, int ends)
{
	struct lbt_found found = {0};
	uint64_t about = 0;

	for (int runs = 0; runs < RUNS; runs++) {
		int need = ends ? lbt_flow_ends(flow, 100, &about) : lbt_flow_run(flow, &found);
		int any;

		about = ends ? about : found.about;
		any = (int)(about * 7 >> 2 & 3);

		if (need <= LBT_FOLLOWED || need == LBT_FAILED)
			break;
		if (need == LBT_NEEDS_PART && about >= APART && about < APART + size)
			lbt_flow_add(flow, part, size, APART);
		if (need == LBT_NEEDS_DECODER)
			lbt_flow_decoded(flow, about, any ? LBT_PLAIN : LBT_INVALID, any);
		else
			lbt_flow_answer(flow, need, about, any == 1);
	}
	return found;
}

/* Looks for the ways to each return, with steps that are as good as any. */
static void look_back(struct lbt_flow *flow, struct lbt_steps *steps, const struct lbt_found *found,
		      const unsigned char *code, const unsigned char *apart)
{
	struct lbt_way ways[LBT_WAYS] = {{0}};

	for (size_t each = 0; each < found->out_count && each < 4; each++) {
		uint64_t ret = found->outs[each].address;

		while (lbt_flow_ways(flow, steps, ret, ways) == LBT_UNKNOWN_STEP) {
			uint64_t at = ways->address;
			const unsigned char *raw = at < APART ? code + (at - START) : apart + (at - APART);

			lbt_steps_add(steps, ways->restored, raw, (size_t)ways->length,
				      (int32_t)(at & 7) - 1);
		}
		lbt_flow_use(flow, ways->address);
		lbt_flow_land(flow, ret + 1);
	}
}

static void look(struct lbt_flow *flow, uint64_t address)
{
	int64_t sources[4];
	int32_t pointer, base;

	lbt_flow_length(flow, address);
	lbt_flow_before(flow, address);
	lbt_flow_sources(flow, address, sources, 4);
	lbt_flow_depth(flow, address, &pointer, &base);
	lbt_flow_is_apart(flow, address);
	lbt_flow_in_loop(flow, address, 50);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	size_t first = size > 128 ? 128 : size;
	unsigned char *code = copy(data, first), *apart = copy(data + first, size - first);
	struct lbt_answers *answers = lbt_answers_new();
	struct lbt_flow *flow = lbt_flow_new(answers);
	struct lbt_steps *steps = lbt_steps_new();
	uint64_t asked[LBT_ASKED];

	for (int ends = 0; ends < 2; ends++) {
		struct lbt_found found;

		lbt_flow_reset(flow);
		lbt_flow_add(flow, code, first, START);
		lbt_flow_from(flow, START, 0, LBT_NO_DEPTH, 0);
		found = run(flow, apart, size - first, ends);
		for (size_t each = 0; each < found.out_count && each < 4; each++) {
			uint64_t out = found.outs[each].address;

			lbt_flow_meet(flow, -1, out);
			lbt_flow_from(flow, out - 3, 8, 0, -1);
		}
		found = run(flow, apart, size - first, ends);
		look_back(flow, steps, &found, code, apart);
		for (size_t each = 0; each < size + 130; each += 5)
			look(flow, START + each);
	}
	lbt_steps_free(steps);
	lbt_flow_free(flow);
	while (!lbt_surely_returns(answers, code, first, START, 100, asked) && asked[0])
		if (!lbt_answers_add(answers, asked[0], 0, 0))
			break;
	lbt_answers_free(answers);
	free(code);
	free(apart);
	return 0;
}
