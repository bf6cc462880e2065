/* Names of functions: see function_names.h. */
#include "function_names.h"

#include <string.h>

#include "symbol_names.h"

enum { OF_KIND = LBT_FUNCTION | LBT_COLD | LBT_INSIDE };

/* A name, and what decides among several. */
struct choice {
	struct name name;
	int local;
	size_t underscores;
};

static struct choice choice_of(const struct lbt_symbols *symbols, size_t position)
{
	struct choice choice = {.name = name_of(symbols, position)};
	size_t source;

	choice.local = !(symbol_of(symbols, position, &source).info >> 4);
	while (choice.underscores < choice.name.size &&
	       choice.name.text[choice.underscores] == '_')
		choice.underscores++;
	return choice;
}

static int is_better(const struct choice *one, const struct choice *other)
{
	if (one->local != other->local)
		return one->local < other->local;
	if (one->underscores != other->underscores)
		return one->underscores < other->underscores;
	if (one->name.size != other->name.size)
		return one->name.size < other->name.size;
	return memcmp(one->name.text, other->name.text, one->name.size) < 0;
}

static int is_unclear(const struct lbt_symbols *symbols, size_t position, const struct name *name)
{
	return symbols->flags[position] & (LBT_ODD | LBT_VERSIONED | LBT_SHORTENED) ||
	       memchr(name->text, '@', name->size) != NULL;
}

/* The name of the function whose first symbol is the one at a place by address; empty where
 * that is unclear. */
static struct name first_name(const struct lbt_symbols *symbols, size_t place)
{
	uint64_t address = symbols->addresses[place];
	struct choice best = {.name = {.text = ""}};

	for (; place < symbols->inside && symbols->addresses[place] == address; place++) {
		size_t position = symbols->by_address[place];
		struct choice choice;

		if ((symbols->flags[position] & OF_KIND) != (LBT_FUNCTION | LBT_INSIDE))
			continue;
		choice = choice_of(symbols, position);
		if (is_unclear(symbols, position, &choice.name))
			return (struct name){.text = ""};
		if (!best.name.size || is_better(&choice, &best))
			best = choice;
	}
	return best.name;
}

size_t lbt_write_names(const struct lbt_symbols *symbols, size_t *from, char *into, size_t room)
{
	size_t used = 0;

	for (; *from < symbols->function_count; ++*from) {
		struct name name = first_name(symbols, symbols->functions[*from]);

		if (name.size >= room - used)
			break;
		memcpy(into + used, name.text, name.size);
		used += name.size;
		into[used++] = 0;
	}
	return used;
}
