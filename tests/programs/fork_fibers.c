/* Fibers that fork: at random they switch, call, return, and fork processes, which continue all of
 * them. Logs what is true, as forks.cc does: fork_fibers SEED LOG
 *
 * The program switches itself, or with CONTEXTS by swapcontext().
 */
#include "take_up.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define FIBERS 4
#define STACK (64 << 10)

static int depth[FIBERS], running, budget = 150, logged, *processes;
static long next_number;

static int draw(int bound) { return rand() % bound; }

static void note(const char *what, long number, int depth, const char *rest)
{
	char line[128];
	int size = snprintf(line, sizeof(line), "%s %d %d %ld %d%s\n", what, getpid(), getpid(),
			    number, depth, rest);

	if (write(logged, line, size) != size)
		abort();
}

static void run_fiber(void);

#ifdef CONTEXTS
static ucontext_t left[FIBERS];

static void change(int from, int to) { swapcontext(&left[from], &left[to]); }

static void prepare(int fiber)
{
	getcontext(&left[fiber]);
	left[fiber].uc_stack.ss_sp = calloc(1, STACK);
	left[fiber].uc_stack.ss_size = STACK;
	makecontext(&left[fiber], run_fiber, 0);
}
#else
static void *left[FIBERS];

static void change(int from, int to) { take_up(&left[from], left[to]); }

static void prepare(int fiber)
{
	uint64_t *words = (uint64_t *)map_stack(STACK) - SAVED - 1;

	words[ADDRESS] = (uint64_t)run_fiber;
	left[fiber] = words;
}
#endif

static void switch_to(int to)
{
	int from = running;

	running = to;
	if (running != from)
		change(from, to);
}

long one(long number);
long two(long number);

static void forks(void)
{
	if (--*processes < 0)
		return;
	pid_t child = fork();

	if (child > 0) {
		if (draw(2))
			waitpid(child, NULL, 0);
	} else if (!child) {
		budget = 25;
		srand(getpid());
	}
}

static void act(void)
{
	for (int n = draw(5); n--;) {
		if (--budget < 0 || depth[running] > 20)
			return;
		switch (draw(9)) {
		case 0: case 1: switch_to(draw(FIBERS)); break;
		case 2: forks(); break;
		case 3: case 4: two(++next_number); break;
		default: one(++next_number);
		}
	}
}

#define BODY                                                                                       \
	char result[32];                                                                           \
	note("enter", number, depth[running]++, "");                                               \
	act();                                                                                     \
	snprintf(result, sizeof(result), " %ld", number * 3 + getpid());                           \
	note("leave", number, --depth[running], result);                                           \
	return number * 3 + getpid()

__attribute__((noipa)) long one(long number)
{
	BODY;
}

__attribute__((noipa)) long two(long number)
{
	volatile char room[100]; /* another frame */

	room[0] = 0;
	BODY + room[0];
}

static void run_fiber(void)
{
	for (;;) {
		act();
		if (budget < 0 || !draw(3))
			switch_to(budget < 0 ? 0 : draw(FIBERS));
	}
}

int main(int argc, char **argv)
{
	srand(argc > 1 ? atoi(argv[1]) : 1);
	logged = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
	processes = mmap(NULL, sizeof(*processes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	*processes = 20;
	for (int n = 1; n < FIBERS; n++)
		prepare(n);
	while (budget >= 0)
		act();
	while (wait(NULL) > 0)
		;
	return 0;
}
