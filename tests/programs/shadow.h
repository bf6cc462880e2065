/*
 * A program's own account of its calls: a shadow stack for each thread or
 * stack of its own, and a log of how each call ended.
 *
 * A line of the log: pid, lane, name, argument, result, end, depth. What is
 * not there is written -. Calls that are open when the log is written come
 * last, innermost first.
 */
#ifndef SHADOW_H
#define SHADOW_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What makes system calls of its own choice may fork, too. */
#ifdef HARMLESS
#define THREAD_ID() gettid()
#else
#define THREAD_ID() syscall(SYS_gettid)
#endif

#ifdef __clang__
#define TRACED __attribute__((noinline))
#else
#define TRACED __attribute__((noipa, noinline))
#endif
#define APART TRACED /* not traced, but a function of its own */

struct shadow_call {
	const char *name;
	long argument;
	int jumped; /* to the next one, with which it ends */
};

struct shadow {
	long lane;
	int depth;
	int inherited; /* open calls that another process has made */
	struct shadow_call calls[20000];
	int lines;
	char *log;
	size_t used, room;
};

static __thread struct shadow *shadow;
static const char *shadow_path;

static void shadow_new(long lane)
{
	shadow = (struct shadow *)calloc(1, sizeof(*shadow));
	shadow->lane = lane;
}

/* A forked process is inside of the calls that were open, and does not return from them. */
static inline void shadow_fork(long lane)
{
	const int depth = shadow->depth;

	shadow_new(lane);
	shadow->depth = shadow->inherited = depth;
}

static int shadow_file, shadow_pid;

/* What the log will need, before the system refuses it. */
static inline void shadow_reserve(void)
{
	shadow->room = 1 << 16;
	shadow->log = (char *)malloc(shadow->room);
	shadow_file = open(shadow_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	shadow_pid = getpid();
}

static void shadow_line(const struct shadow_call *call, const char *result, const char *end)
{
	if (shadow->room - shadow->used < 256) {
		shadow->room = shadow->room ? shadow->room * 2 : 1 << 16;
		shadow->log = (char *)realloc(shadow->log, shadow->room);
	}
	shadow->used += (size_t)sprintf(shadow->log + shadow->used, "%d %ld %s %ld %s %s %d\n",
					shadow_pid ? shadow_pid : getpid(), shadow->lane, call->name, call->argument, result,
					end, shadow->depth);
}

static void shadow_write(void)
{
	int file = open(shadow_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	while (shadow->depth > shadow->inherited)
		shadow_line(&shadow->calls[--shadow->depth], "-", "open");
	if (write(file, shadow->log, shadow->used) != (ssize_t)shadow->used)
		abort();
	close(file);
	shadow->used = 0;
}

static void shadow_start(const char *path)
{
	shadow_path = path;
	shadow_new(THREAD_ID());
}

static void shadow_enter(const char *name, long argument)
{
	struct shadow_call *call = &shadow->calls[shadow->depth++];
	call->name = name;
	call->argument = argument;
	call->jumped = 0;
}

/* The innermost call jumps to another function, and returns when that does. */
static inline void shadow_jump(void)
{
	shadow->calls[shadow->depth - 1].jumped = 1;
}

static int shadow_has_jumped(void)
{
	return shadow->depth > shadow->inherited && shadow->calls[shadow->depth - 1].jumped;
}

static void shadow_leave(long result)
{
	char text[32];
	sprintf(text, "%ld", result);
	do
		shadow_line(&shadow->calls[--shadow->depth], text, "returned");
	while (shadow_has_jumped());
}

static void shadow_end(const char *end)
{
	shadow_line(&shadow->calls[--shadow->depth], "-", end);
}

/* The innermost call jumps where its return cannot be seen, nor that of those that jumped to it. */
static inline void shadow_jump_away(void)
{
	do
		shadow_end("tail");
	while (shadow_has_jumped());
}

/* All calls above depth were left. */
static void shadow_unwound(int depth)
{
	while (shadow->depth > depth)
		shadow_end("unwound");
}

#define ENTER(argument) shadow_enter(__func__, (long)(argument))
#define RETURN(result)                                                                             \
	do {                                                                                       \
		long shadow_result = (result);                                                     \
		shadow_leave(shadow_result);                                                       \
		return shadow_result;                                                              \
	} while (0)

#endif
