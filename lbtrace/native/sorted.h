/* Positions in sorted numbers. */
#ifndef LBT_SORTED_H
#define LBT_SORTED_H

#include <stddef.h>
#include <stdint.h>

/* The position of the first value from one on that lies before an end, or -1. */
static inline int64_t find_within(const uint64_t *sorted, size_t count, uint64_t value, uint64_t end)
{
	size_t low = 0, all = count;

	while (count) {
		size_t half = count / 2;

		if (sorted[low + half] < value) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low < all && sorted[low] < end ? (int64_t)low : -1;
}

/* The position of a value, or -1. */
static inline int64_t find(const uint64_t *sorted, size_t count, uint64_t value)
{
	return find_within(sorted, count, value, value + 1);
}

#endif
