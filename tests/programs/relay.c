/*
 * Programs that start each other, and log their own calls: what a trace of all
 * of them must show. Compiled twice, as SELF_NAME first and second.
 *
 *     RELAY_LOG=FILE relay-first [STEP PROGRAM]...
 *
 * Each program calls alone(), then relay(), which calls work(), takes the first
 * step, in which PROGRAM runs with the steps behind it, and calls work() again:
 *
 *     exec     executes it
 *     fork     a child executes it, and is waited for
 *     vfork    the same, by vfork
 *     spawn    the same, by posix_spawn
 *     thread   a thread executes it, while the main thread waits in wait_here()
 *     name     is the thread's name, no program
 *
 * FILE gets a line as each call begins and ends, "pid tid > name argument" and
 * "pid tid < name result", and "pid tid exec name 0" as a program begins.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACED __attribute__((noinline)) int
#define JOINED(a, b) a##b
#define NAMED(self) JOINED(self, _alone)
#define TEXT_OF(self) #self
#define TEXT(self) TEXT_OF(self)
#define ALONE NAMED(SELF_NAME)
#define SELF TEXT(SELF_NAME)

extern char **environ;
static const char *path;

static void note(const char *format, const char *name, int number)
{
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	char line[128];
	int size = sprintf(line, format, getpid(), (int)syscall(SYS_gettid), name, number);

	if (write(file, line, size) != size)
		abort();
	close(file);
}

#define BEGIN(name, argument) note("%d %d > %s %d\n", name, argument)
#define END(name, result) note("%d %d < %s %d\n", name, result)

TRACED work(int n)
{
	int result;

	BEGIN("work@relay-" SELF, n);
	result = n ? work(n - 1) + 1 : 0;
	END("work@relay-" SELF, result);
	return result;
}

TRACED wait_here(int n)
{
	BEGIN("wait_here@relay-" SELF, n);
	for (;;)
		pause();
	return n;
}

static void *execute(void *words)
{
	char **next = words;

	usleep(200000); /* wait_here() has begun */
	execv(next[0], next);
	return NULL;
}

TRACED relay(int n, char **words)
{
	char *how = words[0], **next = words + 1;
	pthread_t thread;
	pid_t child = 0;

	BEGIN("relay@relay-" SELF, n);
	work(2);
	if (how && !strcmp(how, "exec"))
		execv(next[0], next);
	if (how && !strcmp(how, "fork") && !(child = fork()))
		execv(next[0], next);
	if (how && !strcmp(how, "vfork") && !(child = vfork())) {
		execv(next[0], next);
		_exit(1);
	}
	if (how && !strcmp(how, "spawn") && posix_spawn(&child, next[0], NULL, NULL, next, environ))
		abort();
	if (how && !strcmp(how, "thread")) {
		pthread_create(&thread, NULL, execute, next);
		wait_here(0);
	}
	if (how && !strcmp(how, "name"))
		pthread_setname_np(pthread_self(), next[0]);
	if (child)
		waitpid(child, NULL, 0);
	work(1);
	END("relay@relay-" SELF, n + 1);
	return n + 1;
}

TRACED ALONE(int n)
{
	BEGIN(SELF "_alone", n);
	END(SELF "_alone", n * 2);
	return n * 2;
}

int main(int argc, char **argv)
{
	path = getenv("RELAY_LOG");
	note("%d %d exec relay-%s %d\n", SELF, 0);
	ALONE(argc);
	return relay(argc, argv + 1) != argc + 1;
}
