/*
 * The reading of x86-64 code under libFuzzer and the sanitizers: any bytes, in a copy of their own
 * so that nothing beside them is read.
 */
#include "reach.h"
#include "x86_64_code.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct lbt_reach found;
	struct instruction instruction;
	unsigned char *code;
	int32_t depth = size && data[0] & 1 ? LBT_NO_DEPTH : 0;

	if (size) {
		data++;
		size--;
	}
	code = malloc(size ? size : 1);
	memcpy(code, data, size);
	lbt_find_reach(code, size, 0x400000, depth, &found);
	lbt_find_reach(code, size, ~(uint64_t)0 - size, depth, &found);
	for (size_t at = 0; at < size; at++)
		lbt_read_instruction(code, size, at, 0x400000, &instruction);
	free(code);
	return 0;
}
