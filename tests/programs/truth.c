/*
 * Logs its own calls: what a trace of it must show.
 *
 *     truth FILE threads N CALLS    N threads make CALLS rounds of calls each
 *     truth FILE fork N CALLS       N children do, forked without exec
 *     truth FILE alone 1 CALLS      the main thread does
 *
 * Each function notes its arguments and its result in memory, when it returns.
 * Every process appends its notes to FILE at its end: a line a call,
 * "pid tid name result argument...".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;
static long rounds;

struct log {
	char *text;
	size_t size, room;
	int pid, tid;
};
static _Thread_local struct log mine;

static void note(const char *format, ...)
{
	va_list arguments;

	if (mine.room - mine.size < 512) {
		mine.room = mine.room * 2 + 65536;
		mine.text = realloc(mine.text, mine.room);
	}
	mine.size += sprintf(mine.text + mine.size, "%d %d ", mine.pid, mine.tid);
	va_start(arguments, format);
	mine.size += vsprintf(mine.text + mine.size, format, arguments);
	va_end(arguments);
}

static void begin(void)
{
	memset(&mine, 0, sizeof(mine));
	mine.pid = getpid();
	mine.tid = syscall(SYS_gettid);
}

static void finish(void)
{
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);

	if (write(file, mine.text, mine.size) != (ssize_t)mine.size)
		abort();
	close(file);
}

#define TRACED __attribute__((noinline, noclone))

TRACED int traced_small(signed char a, unsigned char b, short c, unsigned short d)
{
	int result = a - b + c - d;

	note("traced_small %d %d %u %d %u\n", result, a, b, c, d);
	return result;
}

TRACED unsigned long traced_wide(int a, unsigned b, long c, unsigned long d, int64_t e, uint32_t f)
{
	unsigned long result = a + b + c + d + e + f;

	note("traced_wide %lu %d %u %ld %lu %ld %u\n", result, a, b, c, d, e, f);
	return result;
}

TRACED bool traced_kinds(bool yes, char letter, const char *text)
{
	bool result = !yes;

	note("traced_kinds %s %s %c %s\n", result ? "true" : "false", yes ? "true" : "false", letter,
	     text ? text : "(nil)");
	return result;
}

TRACED void traced_nothing(void)
{
	note("traced_nothing void\n");
}

TRACED long traced_recursive(long n, long weight)
{
	long result = n <= 0 ? weight : traced_recursive(n - 1, weight + n) + 1;

	note("traced_recursive %ld %ld %ld\n", result, n, weight);
	return result;
}

TRACED long traced_seven(long a, long b, long c, long d, long e, long f, long g)
{
	long result = a + b + c + d + e + f + g;

	note("traced_seven %ld %ld %ld %ld %ld %ld %ld %ld\n", result, a, b, c, d, e, f, g);
	return result;
}

static void work(void)
{
	unsigned long random = 88172645463325252UL + mine.tid;

	for (long i = 0; i < rounds; i++) {
		random ^= random << 13; /* xorshift64 */
		random ^= random >> 7;
		random ^= random << 17;
		traced_small(random, random >> 8, random >> 16, random >> 32);
		traced_wide(random, random >> 3, -random, random, random >> 1, ~random);
		traced_kinds(random & 1, 'a' + random % 26, random & 2 ? NULL : "text");
		traced_nothing();
		traced_recursive(random % 4, -(long)(random % 1000));
		traced_seven(random, -1, 2, -3, 4, -5, 6);
	}
}

static void *thread(void *unused)
{
	begin();
	work();
	return memcpy(malloc(sizeof(mine)), &mine, sizeof(mine));
}

int main(int argc, char **argv)
{
	int many = argc > 3 ? atoi(argv[3]) : 1;
	pthread_t ids[256];

	if (argc != 5 || many > 256)
		return 2;
	path = argv[1];
	rounds = atol(argv[4]);
	begin();
	if (!strcmp(argv[2], "threads")) {
		for (int i = 0; i < many; i++)
			pthread_create(&ids[i], NULL, thread, NULL);
		for (int i = 0; i < many; i++) {
			void *log;

			pthread_join(ids[i], &log);
			mine = *(struct log *)log;
			finish();
		}
	} else if (!strcmp(argv[2], "fork")) {
		for (int i = 0; i < many; i++) {
			if (!fork()) {
				begin();
				work();
				finish();
				return 0;
			}
		}
		while (wait(NULL) > 0)
			;
	} else {
		work();
		finish();
	}
	return 0;
}
