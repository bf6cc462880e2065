/* Symbols of which many are at one address: see symbol_crowds.h. */
#include "symbol_crowds.h"

#include <stdlib.h>
#include <string.h>

#include "symbol_extents.h"
#include "symbol_names.h"

enum {
	FEW = 64,          /* symbols at an address that are kept, whatever they are */
	OF_EACH_SORT = 16, /* that are kept of more, whatever their names are */
	CROWDED = 1 << 16, /* others at such addresses that are kept in a file: linkers fold functions
			    * with the same code, by thousands */
};

/* A symbol, and what tells it from others at its address. */
struct member {
	struct name name;
	uint64_t sort;
	uint32_t hash, position;
};

/* All that matters of a symbol but its name, its size and its place: the word of SHT_GNU_versym,
 * what is known, and st_info. */
static uint64_t sort_of(const struct lbt_symbols *symbols, size_t position)
{
	size_t source, row = symbols->rows[position];
	struct symbol symbol = symbol_of(symbols, position, &source);
	uint64_t flags = symbols->flags[position] & ~(LBT_SHORTENED | LBT_LEFT_OUT);
	uint16_t version = 0;

	for (size_t i = 0; i < source; i++)
		row -= symbols->sources[i].size / sizeof(struct symbol);
	if (row < symbols->sources[source].versions_size / sizeof(version))
		memcpy(&version, symbols->sources[source].versions + row * sizeof(version),
		       sizeof(version));
	return (uint64_t)version << 32 | flags << 8 | symbol.info;
}

static int compare(const void *one, const void *other)
{
	const struct member *a = one, *b = other;
	int differ;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->sort != b->sort)
		return a->sort < b->sort ? -1 : 1;
	if (a->name.size != b->name.size)
		return a->name.size < b->name.size ? -1 : 1;
	differ = a->name.text == b->name.text ? 0 : memcmp(a->name.text, b->name.text, a->name.size);
	if (differ)
		return differ;
	return a->position < b->position ? -1 : a->position > b->position;
}

static int is_same(const struct member *a, const struct member *b)
{
	return a->hash == b->hash && a->sort == b->sort && a->name.size == b->name.size &&
	       !memcmp(a->name.text, b->name.text, a->name.size);
}

/* Leaves out, but for a few of each sort, those that are cut, or once there is no more room, all.
 * Whether it is a part of a function and whether it can be seen elsewhere decide what a symbol is a
 * name of, and which name is best. */
static void leave_out_others(struct lbt_symbols *symbols, const struct placed *placed, size_t count,
			     int cut, size_t *room)
{
	unsigned char kept[2][256] = {{0}};

	for (size_t i = 0; i < count; i++) {
		uint16_t *flags = &symbols->flags[placed[i].position];
		uint64_t sort = sort_of(symbols, placed[i].position);
		unsigned char *already = &kept[(*flags & LBT_COLD) != 0][sort & 255];

		if (*flags & LBT_LEFT_OUT || (cut && !(*flags & LBT_SHORTENED)))
			continue;
		if (*already < OF_EACH_SORT) {
			++*already;
		} else if (!cut && *room) {
			--*room;
		} else {
			*flags |= LBT_LEFT_OUT;
			symbols->left_out++;
		}
	}
}

/* The last one of those that are alike is kept: it decides on a name's version. */
static void leave_out_repeated(struct lbt_symbols *symbols, const struct placed *placed, size_t count,
			       struct member *members)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t position = placed[i].position;

		if (symbols->flags[position] & LBT_LEFT_OUT)
			continue;
		members[found++] = (struct member){name_of(symbols, position),
						   sort_of(symbols, position),
						   symbols->hashes[position], position};
	}
	qsort(members, found, sizeof(*members), compare);
	for (size_t i = 1; i < found; i++)
		if (is_same(&members[i - 1], &members[i]))
			symbols->flags[members[i - 1].position] |= LBT_LEFT_OUT;
}

/* The largest sizes of functions, or parts of some, in the order of their addresses. */
static uint64_t *largest(const struct lbt_symbols *symbols, const struct placed *placed, size_t count,
			 int of, int flags)
{
	uint64_t *sizes = calloc(count + 1, sizeof(*sizes));
	size_t number = 0;
	uint64_t address = 0;

	for (size_t i = 0; sizes && i < count; i++) {
		uint64_t size;

		if ((symbols->flags[placed[i].position] & of) != flags)
			continue;
		if (!number || placed[i].address != address)
			number++;
		address = placed[i].address;
		size = size_of_symbol(symbols, placed[i].position);
		if (size > sizes[number - 1])
			sizes[number - 1] = size;
	}
	return sizes;
}

static size_t crowd_at(const struct placed *placed, size_t count, size_t first)
{
	size_t end = first + 1;

	while (end < count && placed[end].address == placed[first].address)
		end++;
	return end - first;
}

size_t lbt_thin_crowds(struct lbt_symbols *symbols, struct placed *placed, size_t count)
{
	struct member *members;
	size_t most = 0, kept = 0, room = CROWDED, crowd;

	for (size_t i = 0; i < count; i += crowd) {
		crowd = crowd_at(placed, count, i);
		most = crowd > most ? crowd : most;
	}
	if (most <= FEW)
		return count;
	members = malloc(most * sizeof(*members));
	symbols->function_sizes =
		largest(symbols, placed, count, LBT_FUNCTION | LBT_COLD, LBT_FUNCTION);
	symbols->cold_sizes = largest(symbols, placed, count, LBT_COLD, LBT_COLD);
	if (!members || !symbols->function_sizes || !symbols->cold_sizes)
		return free(members), SIZE_MAX;
	for (size_t i = 0; i < count; i += crowd) {
		crowd = crowd_at(placed, count, i);
		if (crowd <= FEW)
			continue;
		leave_out_others(symbols, placed + i, crowd, 1, &room);
		leave_out_repeated(symbols, placed + i, crowd, members);
		leave_out_others(symbols, placed + i, crowd, 0, &room);
	}
	free(members);
	for (size_t i = 0; i < count; i++)
		if (!(symbols->flags[placed[i].position] & LBT_LEFT_OUT))
			placed[kept++] = placed[i];
	return kept;
}
