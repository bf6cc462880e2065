/* Writes numbers and durations. */
#ifndef LBT_PUT_H
#define LBT_PUT_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "lines.h"

#define LBT_LONGEST 64 /* no number is longer */

static __attribute__((noinline)) int lbt_put(struct lbt_output *output, const char *bytes, size_t size)
{
	if (lbt_reserve(&output->bytes, &output->capacity, output->size + size, 1))
		return -ENOMEM;
	memcpy(output->bytes + output->size, bytes, size);
	output->size += size;
	return 0;
}

/* A text at the right end of a column that is at most 13 wide. */
static int lbt_put_right(struct lbt_output *output, const char *bytes, size_t size, size_t width,
			 size_t columns)
{
	static const char blank[] = "             ";

	if (columns < width && lbt_put(output, blank, width - columns))
		return -ENOMEM;
	return lbt_put(output, bytes, size);
}

/* Digits before end; where they begin. */
static char *lbt_digits(char *end, uint64_t number)
{
	do {
		*--end = '0' + number % 10;
		number /= 10;
	} while (number);
	return end;
}

static int lbt_put_number(struct lbt_output *output, uint64_t number)
{
	char digits[24], *end = digits + sizeof(digits), *begin = lbt_digits(end, number);

	return lbt_put(output, begin, end - begin);
}

static int lbt_put_hexadecimal(struct lbt_output *output, uint64_t number)
{
	char digits[24], *end = digits + sizeof(digits), *begin = end;

	do {
		*--begin = "0123456789abcdef"[number & 15];
		number >>= 4;
	} while (number);
	*--begin = 'x';
	*--begin = '0';
	return lbt_put(output, begin, end - begin);
}

static int lbt_put_micro(struct lbt_output *output, uint64_t nanoseconds)
{
	const uint32_t rest = nanoseconds % 1000;
	const char decimals[] = { '.', '0' + rest / 100, '0' + rest / 10 % 10, '0' + rest % 10 };

	return lbt_put_number(output, nanoseconds / 1000) ||
	       lbt_put(output, decimals, sizeof(decimals));
}

/* As many digits, with zeros in front, before end; where they begin. */
static char *lbt_digits_of(char *end, uint64_t number, int count)
{
	for (; count; count--, number /= 10)
		*--end = '0' + number % 10;
	return end;
}

/* The time of day, to the microsecond. */
static int lbt_put_clock(struct lbt_output *output, uint64_t nanoseconds)
{
	const uint64_t micros = nanoseconds / 1000 % (24ull * 3600 * 1000000);
	const uint32_t seconds = micros / 1000000;
	char text[15];

	lbt_digits_of(text + 15, micros, 6);
	text[8] = '.';
	lbt_digits_of(text + 8, seconds % 60, 2);
	text[5] = ':';
	lbt_digits_of(text + 5, seconds / 60 % 60, 2);
	text[2] = ':';
	lbt_digits_of(text + 2, seconds / 3600, 2);
	return lbt_put(output, text, sizeof(text));
}

/* Seconds with nine decimals, 13 columns wide. */
static int lbt_put_seconds(struct lbt_output *output, uint64_t nanoseconds, int negative)
{
	char text[LBT_LONGEST], *end = text + sizeof(text);
	char *begin = lbt_digits_of(end, nanoseconds, 9);

	*--begin = '.';
	begin = lbt_digits(begin, nanoseconds / 1000000000);
	if (negative)
		*--begin = '-';
	return lbt_put_right(output, begin, end - begin, 13, end - begin);
}

/* As `duration` of lbtrace/sinks/tree.py. */
static int lbt_put_duration(struct lbt_output *output, uint64_t nanoseconds)
{
	static const char *const units[] = { " µs", " ms", " s" };
	double value = nanoseconds;
	char text[LBT_LONGEST];
	int unit = 0, digits, length;

	if (nanoseconds < 1000) {
		length = snprintf(text, sizeof(text), "%u ns", (unsigned int)nanoseconds);
		return lbt_put_right(output, text, length, 9, length);
	}
	for (value /= 1000; value >= 999.5 && unit < 2; unit++)
		value /= 1000;
	digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	length = snprintf(text, sizeof(text), "%.*f", digits, value);
	if (digits) /* whatever the locale writes there, in however many bytes */
		for (char *at = text; *at; at++)
			if (*at < '0' || *at > '9') {
				memmove(at + 1, text + length - digits, digits);
				*at = '.';
				length = at + 1 + digits - text;
				break;
			}
	memcpy(text + length, units[unit], strlen(units[unit]));
	return lbt_put_right(output, text, length + strlen(units[unit]), 9,
			     length + (unit == 2 ? 2 : 3));
}

/* Digits of a number, of which this many are decimals. */
static int lbt_put_decimal(struct lbt_output *output, uint64_t number, int decimals)
{
	char digits[LBT_LONGEST], *end = digits + sizeof(digits), *begin;

	for (; decimals > 1 && !(number % 10); decimals--)
		number /= 10;
	begin = lbt_digits(end, number);
	while (end - begin <= decimals)
		*--begin = '0';
	return lbt_put(output, begin, end - begin - decimals) || lbt_put(output, ".", 1) ||
	       (decimals ? lbt_put(output, end - decimals, decimals) : lbt_put(output, "0", 1));
}

/* The shortest decimal that is read as this number, as Python's repr: from 0.0001 to 1e16. */
static int lbt_put_real(struct lbt_output *output, double value)
{
	/* products and quotients of these and of integers below 2^53 are rounded once */
	static const double tens[] = { 1e0,  1e1,  1e2,	 1e3,  1e4,  1e5,  1e6,	 1e7,
				       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
				       1e16, 1e17, 1e18, 1e19 };
	char text[LBT_LONGEST];
	uint64_t number = 0;
	int exponent;

	if (signbit(value)) {
		if (lbt_put(output, "-", 1))
			return -ENOMEM;
		value = -value;
	}
	for (int decimals = 0; decimals < 20 && value * tens[decimals] < 1e15; decimals++) {
		number = value * tens[decimals] + 0.5;
		if (number / tens[decimals] == value)
			return lbt_put_decimal(output, number, decimals);
	}
	for (int digits = 16; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*e", digits - 1, value);
		if (strtod(text, NULL) == value || digits == 17) {
			const char *at = text;

			number = 0;
			for (; *at != 'e'; at++) /* whatever the locale's decimal point is */
				if (*at >= '0' && *at <= '9')
					number = 10 * number + (*at - '0');
			exponent = atoi(at + 1);
			return lbt_put_decimal(output, number, digits - 1 - exponent);
		}
	}
	return 0;
}

#endif
