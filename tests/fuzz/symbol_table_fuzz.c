/*
 * The columns of symbol tables, and the scans of code, under libFuzzer and the sanitizers: tables
 * of any content and size, in copies of their own so that nothing beside them is read.
 */
#include "code_scan.h"
#include "function_names.h"
#include "symbol_search.h"

#include <stdlib.h>
#include <string.h>

struct input {
	const unsigned char *data;
	size_t size;
};

/* A copy of the next part of the input, which says how long it is in two bytes. */
static char *next(struct input *input, size_t *size)
{
	char *copy;

	*size = 0;
	if (input->size > 2) {
		*size = input->data[0] | (size_t)input->data[1] << 8;
		input->data += 2;
		input->size -= 2;
		if (*size > input->size)
			*size = input->size;
	}
	copy = malloc(*size ? *size : 1);
	memcpy(copy, input->data, *size);
	input->data += *size;
	input->size -= *size;
	return copy;
}

static void search(struct lbt_symbols *symbols, const char *text, size_t size)
{
	struct lbt_wanted *wanted = lbt_want(text, size, text, size);
	size_t count = symbols->count;

	for (size_t at = 0; at < count; at++)
		at = lbt_next_named(symbols, at, text, size);
	for (size_t at = 0; at < count; at++)
		at = lbt_next_holding(symbols, at, text, size, LBT_DOTTED, count & 1);
	for (size_t at = 0; at < count; at++)
		at = lbt_next_flagged(symbols, at, LBT_CHOOSER | LBT_INSIDE);
	for (size_t at = 0; at < count; at++)
		at = lbt_next_wanted(symbols, at, wanted);
	lbt_free_wanted(wanted);
}

static void write_names(const struct lbt_symbols *symbols)
{
	char *into = malloc(128);
	size_t from = 0, written = 0;

	while (lbt_write_names(symbols, &from, into, 128))
		written = from;
	if (written != symbols->function_count)
		abort();
	free(into);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static const struct lbt_name_limits limits = {64, 16, 2, 256};
	static const uint64_t code[] = {1, 1 << 16, 1 << 20, 1 << 21}, stubs[] = {64, 128};
	struct input input = {data, size};
	struct lbt_symbol_source sources[LBT_SYMBOL_SOURCES];
	struct lbt_symbols *symbols;
	size_t text_size, bytes_size;
	char *text = next(&input, &text_size), *bytes = next(&input, &bytes_size);

	for (int i = 0; i < LBT_SYMBOL_SOURCES; i++) {
		sources[i].symbols = next(&input, &sources[i].size);
		sources[i].strings = next(&input, &sources[i].strings_size);
		sources[i].versions = next(&input, &sources[i].versions_size);
	}
	symbols = lbt_read_functions(sources, LBT_SYMBOL_SOURCES, code, 4, stubs, 2, &limits);
	search(symbols, text, text_size);
	for (size_t i = 1; i < symbols->inside; i++)
		if (symbols->addresses[i - 1] > symbols->addresses[i])
			abort();
	for (size_t i = 0; i < symbols->function_count; i++)
		if (lbt_bisect_symbols(symbols, symbols->functions, symbols->function_count,
				       symbols->addresses[symbols->functions[i]]) != i + 1)
			abort();
	write_names(symbols);
	lbt_free_symbols(symbols);

	symbols = lbt_read_every_symbol(sources, &limits);
	search(symbols, text, text_size);
	lbt_free_symbols(symbols);

	for (size_t at = 0; at < text_size; at++)
		at = lbt_next_call((unsigned char *)text, text_size, at, 1 << 16, code, 4);
	for (size_t at = 0; at < text_size; at++)
		at = lbt_next_link((unsigned char *)text, text_size, at, 1 << 16, code, 4);
	for (size_t at = 0; at < text_size; at++)
		at = lbt_next_jump((unsigned char *)text, text_size, at, 1 << 16, 1 << 16, 1 << 17);
	for (int i = 0; i < LBT_SYMBOL_SOURCES; i++) {
		free((void *)sources[i].symbols);
		free((void *)sources[i].strings);
		free((void *)sources[i].versions);
	}
	free(text);
	free(bytes);
	return 0;
}
