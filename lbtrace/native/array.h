/* Arrays that grow. */
#ifndef LBT_ARRAY_H
#define LBT_ARRAY_H

#include <errno.h>
#include <stdlib.h>

/*
 * Makes room for ``wanted`` elements of ``unit`` bytes, and for ``least`` at first; returns -ENOMEM
 * where there is none.
 */
static inline int lbt_reserve_from(char **array, size_t *capacity, size_t wanted, size_t unit,
				   size_t least)
{
	size_t larger = *capacity ? *capacity : least;
	char *moved;

	if (wanted <= *capacity)
		return 0;
	while (larger < wanted)
		larger *= 2;
	moved = realloc(*array, larger * unit);
	if (!moved)
		return -ENOMEM;
	*array = moved;
	*capacity = larger;
	return 0;
}

static inline int lbt_reserve(char **array, size_t *capacity, size_t wanted, size_t unit)
{
	return lbt_reserve_from(array, capacity, wanted, unit, 4096);
}

#endif
