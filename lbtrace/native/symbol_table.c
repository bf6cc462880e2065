/* Symbol tables of ELF files: see symbol_table.h. */
#include "symbol_table.h"

#include <stdlib.h>
#include <string.h>

#include "symbol_extents.h"
#include "symbol_names.h"

enum { STT_NOTYPE = 0, STT_FUNC = 2, STT_GNU_IFUNC = 10 };
enum { SHN_UNDEF = 0, SHN_LORESERVE = 0xff00, SHN_XINDEX = 0xffff };
enum { VERSION_BASE = 1, VERSION_HIDDEN = 0x8000 };

struct placed {
	uint64_t address;
	uint32_t position;
};

static int is_odd(const struct name *name)
{
	signed char all = 0;

	for (size_t i = 0; i < name->size; i++)
		all |= (signed char)name->text[i];
	return all < 0 || name->cut;
}

static size_t first_row(const struct lbt_symbols *symbols, size_t source)
{
	size_t first = 0;

	for (size_t i = 0; i < source; i++)
		first += symbols->sources[i].size / sizeof(struct symbol);
	return first;
}

/* Whether a name ends in .cold, or in .cold. and a number, which a newline may follow. */
static int is_cold(const char *text, size_t size)
{
	size_t end = size;

	if (end && text[end - 1] == '\n')
		end--;
	if (end && is_digit(text[end - 1])) {
		while (end && is_digit(text[end - 1]))
			end--;
		if (!end || text[end - 1] != '.')
			return 0;
		end--;
	}
	return end >= 5 && !memcmp(text + end - 5, ".cold", 5);
}

/* The version that SHT_GNU_versym gives a symbol; 0 for none. */
static uint16_t version_of(const struct lbt_symbol_source *source, size_t row)
{
	uint16_t version = 0;

	if (row < source->versions_size / sizeof(version))
		memcpy(&version, source->versions + row * sizeof(version), sizeof(version));
	return version & ~(VERSION_HIDDEN | VERSION_BASE) ? version : 0;
}

/* Whether a name is that of a cold part once its default version, @@V, is taken off, and any
 * other appended to it. */
static int is_of_cold(const struct name *name, uint16_t version)
{
	const char *at = name->size ? memchr(name->text + 1, '@', name->size - 1) : NULL;

	if (name->cut)
		return 0;
	if (at && at + 1 < name->text + name->size && at[1] == '@')
		return is_cold(name->text, (size_t)(at - name->text));
	if (at ? version : version & VERSION_HIDDEN)
		return 0;
	return is_cold(name->text, name->size);
}

static int holds(const uint64_t *bounds, size_t count, uint64_t address)
{
	return bisect_addresses(bounds, NULL, count, address) & 1;
}

static int is_wanted(const struct symbol *symbol)
{
	int kind = symbol->info & 15;

	return (kind == STT_FUNC || kind == STT_NOTYPE || kind == STT_GNU_IFUNC) && symbol->value &&
	       symbol->section != SHN_UNDEF &&
	       (symbol->section < SHN_LORESERVE || symbol->section == SHN_XINDEX);
}

static struct lbt_symbols *make(const struct lbt_symbol_source *sources, size_t count,
				const struct lbt_name_limits *limits)
{
	struct lbt_symbols *symbols = calloc(1, sizeof(*symbols));
	uint64_t rows = 0;

	if (!symbols || count > LBT_SYMBOL_SOURCES)
		return free(symbols), NULL;
	for (size_t i = 0; i < count; i++) {
		struct lbt_symbol_source *source = &symbols->sources[i];

		*source = sources[i];
		source->size -= source->size % sizeof(struct symbol);
		if (source->size / sizeof(struct symbol) > UINT32_MAX - rows)
			source->size = 0;
		rows += source->size / sizeof(struct symbol);
	}
	symbols->source_count = count;
	symbols->limits = *limits;
	return symbols;
}

static int make_room(struct lbt_symbols *symbols, size_t count)
{
	symbols->rows = malloc((count + 1) * sizeof(*symbols->rows));
	symbols->hashes = malloc((count + 1) * sizeof(*symbols->hashes));
	symbols->flags = malloc((count + 1) * sizeof(*symbols->flags));
	return symbols->rows && symbols->hashes && symbols->flags;
}

/* Takes the symbols of one table. */
static void take(struct lbt_symbols *symbols, size_t number, int every, const uint64_t *code,
		 size_t code_count, const uint64_t *stubs, size_t stub_count)
{
	const struct lbt_symbol_source *source = &symbols->sources[number];
	const struct lbt_name_limits *limits = &symbols->limits;
	size_t rows = source->size / sizeof(struct symbol), first = first_row(symbols, number);
	size_t left = limits->shared * source->strings_size + limits->least;

	for (size_t row = 0; row < rows; row++) {
		struct symbol symbol = symbol_at(source, row);
		int kind = symbol.info & 15, flags = left ? 0 : LBT_SHORTENED;
		uint16_t version = version_of(source, row);
		struct name name;
		size_t stem;

		if (!every && !is_wanted(&symbol))
			continue;
		name = name_at(source, symbol.name, left ? limits->longest : limits->shortened);
		left -= name.size + name.cut < left ? name.size + name.cut : left;
		if (!every && !name.size)
			continue;
		if (kind == STT_FUNC)
			flags |= LBT_FUNCTION;
		if (kind == STT_GNU_IFUNC)
			flags |= LBT_CHOOSER;
		if (!every && holds(code, code_count, symbol.value) &&
		    !holds(stubs, stub_count, symbol.value))
			flags |= LBT_INSIDE;
		if (is_of_cold(&name, version))
			flags |= LBT_COLD;
		stem = stem_size(name.text, name.size);
		if (stem < name.size || (stem && (*name.text == '.' || *name.text == '@')))
			flags |= LBT_DOTTED;
		if (is_odd(&name))
			flags |= LBT_ODD;
		if (version & VERSION_HIDDEN)
			flags |= LBT_VERSIONED | LBT_DOTTED;
		symbols->rows[symbols->count] = (uint32_t)(first + row);
		symbols->hashes[symbols->count] = hash_of(name.text, stem);
		symbols->flags[symbols->count++] = (uint16_t)flags;
	}
}

/* Sorts by address, what is equal in the order it has: by bytes, from the lowest on. */
static int sort(struct placed *placed, size_t count)
{
	struct placed *other, *from = placed, *to;
	uint64_t differing = 0;
	int sorted = 1;

	for (size_t i = 1; i < count; i++) {
		differing |= placed[i].address ^ placed[0].address;
		sorted &= placed[i - 1].address <= placed[i].address;
	}
	if (sorted)
		return 1;
	to = other = malloc(count * sizeof(*other));
	if (!other)
		return 0;
	for (int shift = 0; shift < 64; shift += 8) {
		size_t starts[256] = {0}, at = 0;
		struct placed *swapped = from;

		if (!(differing >> shift & 255))
			continue;
		for (size_t i = 0; i < count; i++)
			starts[from[i].address >> shift & 255]++;
		for (int digit = 0; digit < 256; digit++) {
			size_t size = starts[digit];

			starts[digit] = at;
			at += size;
		}
		for (size_t i = 0; i < count; i++)
			to[starts[from[i].address >> shift & 255]++] = from[i];
		from = to;
		to = swapped;
	}
	if (from != placed)
		memcpy(placed, from, count * sizeof(*placed));
	free(other);
	return 1;
}

/* The first position of each address at which a symbol has just these of some flags. */
static uint32_t *list(const struct lbt_symbols *symbols, int of, int flags, size_t *count)
{
	uint32_t *found = malloc((symbols->inside + 1) * sizeof(*found));

	*count = 0;
	for (size_t i = 0; found && i < symbols->inside; i++) {
		if ((symbols->flags[symbols->by_address[i]] & of) != flags)
			continue;
		if (*count && symbols->addresses[found[*count - 1]] == symbols->addresses[i])
			continue;
		found[(*count)++] = (uint32_t)i;
	}
	return found;
}

static int order(struct lbt_symbols *symbols)
{
	struct placed *placed = malloc((symbols->count + 1) * sizeof(*placed));
	size_t inside = 0, source;

	for (size_t i = 0; placed && i < symbols->count; i++)
		if (symbols->flags[i] & LBT_INSIDE)
			placed[inside++] = (struct placed){symbol_of(symbols, i, &source).value,
							   (uint32_t)i};
	if (!placed || !sort(placed, inside))
		return free(placed), 0;
	symbols->inside = inside;
	symbols->addresses = malloc((inside + 1) * sizeof(*symbols->addresses));
	symbols->by_address = malloc((inside + 1) * sizeof(*symbols->by_address));
	for (size_t i = 0; symbols->addresses && symbols->by_address && i < inside; i++) {
		symbols->addresses[i] = placed[i].address;
		symbols->by_address[i] = placed[i].position;
	}
	free(placed);
	if (!symbols->addresses || !symbols->by_address)
		return 0;
	symbols->functions = list(symbols, LBT_FUNCTION | LBT_COLD, LBT_FUNCTION, &symbols->function_count);
	symbols->cold = list(symbols, LBT_COLD, LBT_COLD, &symbols->cold_count);
	return symbols->functions && symbols->cold;
}

struct lbt_symbols *lbt_read_functions(const struct lbt_symbol_source *sources, size_t count,
				       const uint64_t *code, size_t code_count,
				       const uint64_t *stubs, size_t stub_count,
				       const struct lbt_name_limits *limits)
{
	struct lbt_symbols *symbols = make(sources, count, limits);

	if (!symbols)
		return NULL;
	if (!make_room(symbols, first_row(symbols, symbols->source_count)))
		return lbt_free_symbols(symbols), NULL;
	for (size_t i = 0; i < symbols->source_count; i++)
		take(symbols, i, 0, code, code_count, stubs, stub_count);
	if (!order(symbols))
		return lbt_free_symbols(symbols), NULL;
	return symbols;
}

struct lbt_symbols *lbt_read_every_symbol(const struct lbt_symbol_source *source,
					  const struct lbt_name_limits *limits)
{
	struct lbt_symbols *symbols = make(source, 1, limits);

	if (!symbols)
		return NULL;
	if (!make_room(symbols, symbols->sources[0].size / sizeof(struct symbol)))
		return lbt_free_symbols(symbols), NULL;
	take(symbols, 0, 1, NULL, 0, NULL, 0);
	return symbols;
}

void lbt_free_symbols(struct lbt_symbols *symbols)
{
	if (!symbols)
		return;
	free(symbols->rows);
	free(symbols->hashes);
	free(symbols->flags);
	free(symbols->addresses);
	free(symbols->by_address);
	free(symbols->functions);
	free(symbols->cold);
	free(symbols->first_named);
	free(symbols->next_named);
	free(symbols);
}

uint64_t lbt_largest_size(const struct lbt_symbols *symbols, int cold, size_t number)
{
	return largest_size(symbols, cold, number);
}

size_t lbt_last_covering(const struct lbt_symbols *symbols, size_t number, size_t least,
			 uint64_t address)
{
	for (size_t each = number; each > least; each--) {
		uint64_t start = symbols->addresses[symbols->functions[each - 1]];

		if (address - start < largest_size(symbols, 0, each - 1))
			return each - 1;
	}
	return number;
}

size_t lbt_bisect_symbols(const struct lbt_symbols *symbols, const uint32_t *positions,
			  size_t count, uint64_t address)
{
	return bisect_addresses(symbols->addresses, positions, count, address);
}
