/*
 * The following of x86-64 code under libFuzzer and the sanitizers: any bytes, in copies of their
 * own so that nothing beside them is read, and any answers to what it asks.
 */
#include "flow_view.h"

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
static void run(struct lbt_flow *flow, const unsigned char *part, size_t size, int ends)
{
	uint64_t about = 0;

	for (int runs = 0; runs < RUNS; runs++) {
		int need = ends ? lbt_flow_ends(flow, 100, &about) : lbt_flow_run(flow, &about);
		int any = (int)(about * 7 >> 2 & 3);

		if (need <= LBT_FOLLOWED || need == LBT_FAILED)
			return;
		if (need == LBT_NEEDS_PART && about >= APART && about < APART + size)
			lbt_flow_add(flow, part, size, APART);
		if (need == LBT_NEEDS_DECODER)
			lbt_flow_decoded(flow, about, any ? LBT_PLAIN : LBT_INVALID, any);
		else
			lbt_flow_answer(flow, need, about, any == 1);
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
	const struct lbt_hiding *hidings;
	uint64_t selected, asked[LBT_ASKED];
	const struct lbt_out *outs;

	for (int ends = 0; ends < 2; ends++) {
		lbt_flow_reset(flow);
		lbt_flow_add(flow, code, first, START);
		lbt_flow_from(flow, START, 0, LBT_NO_DEPTH, 0);
		run(flow, apart, size - first, ends);
		for (size_t each = 0; each < lbt_flow_outs(flow, &outs) && each < 4; each++) {
			lbt_flow_meet(flow, -1, outs[each].address);
			lbt_flow_from(flow, outs[each].address - 3, 8, 0, -1);
		}
		run(flow, apart, size - first, ends);
		lbt_flow_hidings(flow, &hidings);
		lbt_flow_selected(flow, ends, 1, &selected, 1);
		for (size_t each = 0; each < size + 130; each += 5)
			look(flow, START + each);
	}
	lbt_flow_free(flow);
	while (!lbt_surely_returns(answers, code, first, START, 100, asked) && asked[0])
		if (!lbt_answers_add(answers, asked[0], 0, 0))
			break;
	lbt_answers_free(answers);
	free(code);
	free(apart);
	return 0;
}
