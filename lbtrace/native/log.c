#include "log.h"

#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdio.h>

#include "array.h"

static __thread char *lbt_log;
static __thread size_t lbt_log_size, lbt_log_capacity;

static int lbt_print(enum libbpf_print_level level, const char *format, va_list arguments)
{
	va_list again;
	int length;

	if (level == LIBBPF_DEBUG)
		return 0;
	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length < 0 || lbt_reserve(&lbt_log, &lbt_log_capacity, lbt_log_size + length + 1, 1))
		return 0;
	vsnprintf(lbt_log + lbt_log_size, length + 1, format, arguments);
	lbt_log_size += length;
	return length;
}

void lbt_log_start(void)
{
	libbpf_set_print(lbt_print);
	lbt_log_size = 0;
}

const char *lbt_log_text(void)
{
	return lbt_log_size ? lbt_log : "";
}
