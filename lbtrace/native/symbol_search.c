/* Finds symbols by their names: see symbol_search.h. */
#define _GNU_SOURCE /* memmem */
#include "symbol_search.h"

#include <stdlib.h>
#include <string.h>

#include "symbol_names.h"

/*
 * Symbols by their hashes, once one is asked for by its name: the first of each bucket, and after
 * each the next, in order.
 *
 * Of an odd name the bytes that are ASCII stand as they are in how Python reads it, and all others
 * become what is no ASCII, or has a backslash. So a text without these is compared with the bytes
 * of odd names as with those of all others; only for another one every odd name may be meant.
 */
static int is_odd(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((signed char)text[i] < 0 || text[i] == '\\')
			return 1;
	return 0;
}

static int index_names(struct lbt_symbols *symbols)
{
	size_t buckets = symbols->count / 2 + 1;

	if (symbols->first_named)
		return 1;
	symbols->next_named = malloc((symbols->count + 1) * sizeof(*symbols->next_named));
	symbols->first_named = malloc(buckets * sizeof(*symbols->first_named));
	if (!symbols->next_named || !symbols->first_named) {
		free(symbols->next_named);
		free(symbols->first_named);
		symbols->next_named = symbols->first_named = NULL;
		return 0;
	}
	symbols->buckets = buckets;
	for (size_t bucket = 0; bucket < buckets; bucket++)
		symbols->first_named[bucket] = (uint32_t)symbols->count;
	for (size_t at = symbols->count; at--;) {
		size_t bucket = symbols->hashes[at] % buckets;

		symbols->next_named[at] = symbols->first_named[bucket];
		symbols->first_named[bucket] = (uint32_t)at;
	}
	return 1;
}

static int is_named(const struct lbt_symbols *symbols, size_t at, uint32_t hash, const char *text,
		    size_t size)
{
	struct name name;

	if (symbols->hashes[at] != hash)
		return 0;
	name = name_of(symbols, at);
	return name.size >= size && !memcmp(name.text, text, size) &&
	       (name.size == size || name.text[size] == '.' || name.text[size] == '@');
}

static size_t next_odd(const struct lbt_symbols *symbols, size_t from)
{
	while (from < symbols->count && !(symbols->flags[from] & LBT_ODD))
		from++;
	return from;
}

size_t lbt_next_named(struct lbt_symbols *symbols, size_t from, const char *text, size_t size)
{
	const char *version = size ? memchr(text + 1, '@', size - 1) : NULL;
	uint32_t hash = hash_of(text, stem_size(text, size));
	int odd = is_odd(text, size);
	size_t at;

	if (!index_names(symbols))
		return SIZE_MAX;
	if (from > symbols->count)
		return symbols->count;
	if (version)
		size = (size_t)(version - text);
	if (odd && from && symbols->flags[from - 1] & LBT_ODD)
		return next_odd(symbols, from);
	at = from ? symbols->next_named[from - 1] : symbols->first_named[hash % symbols->buckets];
	while (at < symbols->count && ((odd && symbols->flags[at] & LBT_ODD) ||
				       !is_named(symbols, at, hash, text, size)))
		at = symbols->next_named[at];
	return at < symbols->count || !odd ? at : next_odd(symbols, 0);
}

size_t lbt_next_holding(const struct lbt_symbols *symbols, size_t from, const char *part,
			size_t size, int flags, int versions)
{
	int odd = is_odd(part, size);

	for (; from < symbols->count; from++) {
		struct name name;

		if ((symbols->flags[from] & flags) != flags)
			continue;
		if (versions && symbols->flags[from] & LBT_VERSIONED)
			return from;
		name = name_of(symbols, from);
		/* A part may be one of what stands for bytes that are not ASCII. */
		if (symbols->flags[from] & LBT_ODD && (odd || is_odd(name.text, name.size)))
			return from;
		if (memmem(name.text, name.size, part, size))
			return from;
	}
	return symbols->count;
}

size_t lbt_next_flagged(const struct lbt_symbols *symbols, size_t from, int flags)
{
	for (; from < symbols->count; from++)
		if ((symbols->flags[from] & flags) == flags)
			return from;
	return symbols->count;
}

struct beginning {
	const char *text;
	uint32_t first, mask; /* of its first bytes, as far as they are given */
};

struct lbt_wanted {
	struct beginning *beginnings;
	size_t beginning_count;
	char *texts;
	uint64_t seen[1 << 10]; /* a bit for each of the lower bits of the hashes of whole names */
};

enum { SEEN_BITS = 16 };

static uint32_t first_bytes(const char *text, size_t size)
{
	uint32_t bytes = 0;

	memcpy(&bytes, text, size < sizeof(bytes) ? size : sizeof(bytes));
	return bytes;
}

struct lbt_wanted *lbt_want(const char *names, size_t names_size, const char *beginnings,
			    size_t beginnings_size)
{
	struct lbt_wanted *wanted = calloc(1, sizeof(*wanted));

	if (!wanted)
		return NULL;
	wanted->texts = malloc(beginnings_size + 1);
	wanted->beginnings = malloc((beginnings_size + 1) * sizeof(*wanted->beginnings));
	if (!wanted->texts || !wanted->beginnings)
		return lbt_free_wanted(wanted), NULL;
	memcpy(wanted->texts, beginnings, beginnings_size);
	wanted->texts[beginnings_size] = 0;
	for (size_t at = 0; at < names_size; at++) {
		size_t size = strnlen(names + at, names_size - at);
		uint32_t hash = hash_of(names + at, size) & ((1 << SEEN_BITS) - 1);

		wanted->seen[hash / 64] |= (uint64_t)1 << hash % 64;
		at += size;
	}
	for (size_t at = 0; at < beginnings_size; at++) {
		struct beginning *new = &wanted->beginnings[wanted->beginning_count++];
		size_t given;

		new->text = wanted->texts + at;
		given = strcspn(new->text, "#*");
		new->first = first_bytes(new->text, given);
		new->mask = first_bytes("\377\377\377\377", given < 4 ? given : 4);
		at += strlen(new->text);
	}
	return wanted;
}

void lbt_free_wanted(struct lbt_wanted *wanted)
{
	if (!wanted)
		return;
	free(wanted->texts);
	free(wanted->beginnings);
	free(wanted);
}

static int begins(const struct name *name, const char *text)
{
	size_t at = 0;

	for (; *text; text++) {
		if (*text == '*')
			return memmem(name->text + at, name->size - at, text + 1,
				      strlen(text + 1)) != NULL;
		if (*text != '#') {
			if (at >= name->size || name->text[at++] != *text)
				return 0;
			continue;
		}
		if (at >= name->size || !is_digit(name->text[at]))
			return 0;
		while (at < name->size && is_digit(name->text[at]))
			at++;
	}
	return 1;
}

static int is_begun(const struct lbt_wanted *wanted, const struct name *name)
{
	uint32_t first = first_bytes(name->text, name->size);

	for (size_t i = 0; i < wanted->beginning_count; i++) {
		const struct beginning *beginning = &wanted->beginnings[i];

		if ((first & beginning->mask) == beginning->first && begins(name, beginning->text))
			return 1;
	}
	return 0;
}

size_t lbt_next_wanted(const struct lbt_symbols *symbols, size_t from,
		       const struct lbt_wanted *wanted)
{
	for (; from < symbols->count; from++) {
		uint32_t hash = symbols->hashes[from] & ((1 << SEEN_BITS) - 1);
		struct name name;

		if (wanted->seen[hash / 64] >> hash % 64 & 1)
			return from;
		if (!wanted->beginning_count)
			continue;
		name = name_of(symbols, from);
		if (is_begun(wanted, &name))
			return from;
	}
	return symbols->count;
}
