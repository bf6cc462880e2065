/* Which functions never return: see answers.h. */
#include "answers.h"

#include <stdlib.h>
#include <string.h>

struct answer {
	uint64_t key; /* the address, doubled, plus 1 for a pointer; plus 1: 0 is none */
	int ends;
};

struct lbt_answers {
	struct answer *items;
	size_t count, room; /* a power of 2 */
};

static uint64_t key_of(uint64_t address, int pointer)
{
	return (address << 1) + (pointer ? 2 : 1);
}

static struct answer *find_answer(const struct lbt_answers *answers, uint64_t key)
{
	size_t at = (size_t)(key * 0x9e3779b97f4a7c15 >> 20);

	for (;; at++) {
		struct answer *found = &answers->items[at & (answers->room - 1)];

		if (!found->key || found->key == key)
			return found;
	}
}

int lbt_answers_find(const struct lbt_answers *answers, uint64_t address, int pointer)
{
	const struct answer *found = find_answer(answers, key_of(address, pointer));

	return found->key ? found->ends : LBT_NOT_KNOWN;
}

struct lbt_answers *lbt_answers_new(void)
{
	struct lbt_answers *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->room = 64;
	made->items = calloc(made->room, sizeof(*made->items));
	if (made->items)
		return made;
	free(made);
	return NULL;
}

void lbt_answers_free(struct lbt_answers *answers)
{
	free(answers->items);
	free(answers);
}

void lbt_answers_forget(struct lbt_answers *answers)
{
	memset(answers->items, 0, answers->room * sizeof(*answers->items));
	answers->count = 0;
}

static int grow(struct lbt_answers *answers)
{
	struct lbt_answers larger = {calloc(answers->room * 2, sizeof(*larger.items)),
				     answers->count, answers->room * 2};

	if (!larger.items)
		return 0;
	for (size_t each = 0; each < answers->room; each++)
		if (answers->items[each].key)
			*find_answer(&larger, answers->items[each].key) = answers->items[each];
	free(answers->items);
	*answers = larger;
	return 1;
}

int lbt_answers_add(struct lbt_answers *answers, uint64_t address, int pointer, int ends)
{
	struct answer *found;

	if (answers->count * 2 >= answers->room && !grow(answers))
		return 0;
	found = find_answer(answers, key_of(address, pointer));
	answers->count += !found->key;
	*found = (struct answer){key_of(address, pointer), ends};
	return 1;
}
