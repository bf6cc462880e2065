/*
 * Logs the paths by which it comes to leaf(): "paths FILE CALLS". A thread and two forked children do
 * the same; each appends a line a call, "SIZE main;north;south;leaf", to FILE at its end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noipa))

static const char *file;
static long calls;

static _Thread_local struct {
	char path[1024], *end;
	char *log;
	size_t size, room;
	unsigned long random;
} mine;

static long next(long below)
{
	mine.random ^= mine.random << 13; /* xorshift64 */
	mine.random ^= mine.random >> 7;
	mine.random ^= mine.random << 17;
	return mine.random % below;
}

static char *enter(const char *name)
{
	char *before = mine.end;

	mine.end = stpcpy(stpcpy(mine.end, ";"), name);
	return before;
}

APART void leaf(long size)
{
	if (mine.room - mine.size < 2048)
		mine.log = realloc(mine.log, mine.room += 1 << 20);
	mine.size += sprintf(mine.log + mine.size, "%ld %.*s;leaf\n", size,
			     (int)(mine.end - mine.path), mine.path);
}

APART void north(int depth);
APART void south(int depth);
APART void east(int depth);

static inline void go(int depth)
{
	if (!depth) {
		leaf(next(1000));
		return;
	}
	switch (next(3)) {
	case 0:
		north(depth - 1);
		break;
	case 1:
		south(depth - 1);
		break;
	default:
		east(depth - 1);
	}
	if (!next(3))
		leaf(next(1000));
}

APART void north(int depth)
{
	char *before = enter("north");

	go(depth);
	mine.end = before;
}

APART void south(int depth)
{
	char *before = enter("south");
	volatile char room[next(200) + 8]; /* what a frame pointer is for, whatever the flags */

	room[0] = depth;
	go(room[0]);
	mine.end = before;
}

APART void east(int depth)
{
	char *before = enter("east");
	long kept[4] = { next(9), next(9), next(9), next(9) };

	go(depth);
	mine.end = before;
	__asm__ volatile("" ::"r"(kept[0] + kept[1] + kept[2] + kept[3]));
}

APART static void work(const char *name, unsigned long seed)
{
	mine.random = seed;
	mine.size = 0;
	mine.end = stpcpy(mine.path, name);
	for (long i = 0; i < calls; i++)
		go(i % 6);
}

static void finish(void)
{
	int to = open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);

	if (write(to, mine.log, mine.size) != (ssize_t)mine.size)
		abort();
	close(to);
}

static void *thread(void *unused)
{
	work("thread;work", 88172645463325252UL);
	finish();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;

	if (argc != 3)
		return 2;
	file = argv[1];
	calls = atol(argv[2]);
	pthread_create(&other, NULL, thread, NULL);
	pthread_join(other, NULL);
	for (int i = 0; i < 3; i++) {
		if (i == 2 || !fork()) {
			work("main;work", 1234567 + i);
			finish();
			break;
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
