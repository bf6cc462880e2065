/* Random call graphs that log, by themselves, which calls happen below calls of outer(), and those.
 *
 * within SEED LOG [fork] [threads]: two functions call each other and outer() at random, leave by
 * exceptions and longjmp, raise signals that are handled on an alternate stack, fork. Each call has
 * a number of its own; LOG gets "PID NUMBER DEPTH" for those that are inside.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

struct landing {
	sigjmp_buf where;
	landing *around;
};

static int logged, budget, with_forks;
static long next_number;
static __thread int depth_of_outer, depth, left, nested;
static __thread unsigned long state;
static __thread landing *innermost;
static __thread int in_handler;

static unsigned draw(unsigned bound)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (state >> 33) % bound;
}

static void note(long number)
{
	char line[64];

	if (depth_of_outer)
		if (write(logged, line,
			  snprintf(line, sizeof(line), "%d %ld %d\n", getpid(), number, nested++)) < 0)
			abort();
}

static long another() { return __atomic_add_fetch(&next_number, 1, __ATOMIC_RELAXED); }

extern "C" {
void one(long number);
void two(long number);
void outer(long number);
void outer2(long number);
void in_signal(long number);
}

static void call()
{
	switch (draw(8)) {
	case 0: outer(another()); break;
	case 1: outer2(another()); break;
	case 2: case 3: case 4: one(another()); break;
	default: two(another());
	}
}

static void guarded()
{
	const int inside = depth_of_outer, deep = depth, handling = in_handler, around_it = nested;
	landing here;

	here.around = innermost;
	if (!sigsetjmp(here.where, 1)) {
		innermost = &here;
		call();
	}
	innermost = here.around;
	depth_of_outer = inside;
	nested = around_it;
	depth = deep;
	in_handler = handling;
}

static void tried()
{
	const int inside = depth_of_outer, deep = depth, handling = in_handler, around_it = nested;
	landing *const around = innermost;

	try {
		innermost = nullptr;
		call();
	} catch (int) {
	}
	innermost = around;
	depth_of_outer = inside;
	nested = around_it;
	depth = deep;
	in_handler = handling;
}

static void forked()
{
	pid_t child = fork();

	if (!child) {
		with_forks = 0;
		left = 20;
		state += 99;
	} else if (child > 0) {
		waitpid(child, nullptr, 0);
	}
}

static void act()
{
	for (unsigned n = draw(4); n--;) {
		if (depth > 30 || --left <= 0)
			return;
		switch (draw(12)) {
		case 0: guarded(); break;
		case 1: tried(); break;
		case 2: if (innermost) siglongjmp(innermost->where, 1); break;
		case 3: if (!innermost && !in_handler && depth > 1) throw 1; break;
		case 4: if (!in_handler) raise(SIGUSR1); break;
		case 5: if (with_forks && !in_handler && !draw(4)) forked(); break;
		default: call();
		}
	}
}

extern "C" void on_signal(int)
{
	in_handler = 1;
	in_signal(another());
	in_handler = 0;
}

#define BODY(extra)                                                                                \
	const int inside = depth_of_outer, around_it = nested;                                     \
	volatile char room[16 + draw(64)];                                                         \
	room[0] = 1;                                                                               \
	depth_of_outer += extra;                                                                   \
	depth++;                                                                                   \
	note(number);                                                                              \
	act();                                                                                     \
	depth--;                                                                                   \
	nested = around_it;                                                                        \
	depth_of_outer = inside;

void one(long number) { BODY(0) }
void two(long number) { BODY(0) }
void in_signal(long number) { BODY(0) }
void outer(long number) { BODY(1) }
void outer2(long number) { BODY(1) }

static void *run(void *seed)
{
	stack_t alternate = {};

	state = (unsigned long)seed * 2654435761UL + 1;
	alternate.ss_size = 1 << 18;
	alternate.ss_sp = malloc(alternate.ss_size);
	if (draw(2))
		sigaltstack(&alternate, nullptr);
	for (int n = 0; n < 12; n++) {
		left = budget;
		innermost = nullptr;
		depth = depth_of_outer = in_handler = nested = 0;
		tried();
	}
	alternate.ss_flags = SS_DISABLE;
	sigaltstack(&alternate, nullptr);
	return nullptr;
}

int main(int argc, char **argv)
{
	const unsigned long seed = atol(argv[1]);
	struct sigaction action = {};
	pthread_t threads[4];

	logged = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
	for (int n = 3; n < argc; n++)
		with_forks |= !strcmp(argv[n], "fork");
	budget = 60;
	action.sa_handler = on_signal;
	action.sa_flags = SA_ONSTACK | SA_NODEFER;
	sigaction(SIGUSR1, &action, nullptr);
	if (with_forks) {
		run((void *)seed);
		return 0;
	}
	for (int round = 0; round < 3; round++) {
		for (unsigned long n = 0; n < 4; n++)
			pthread_create(&threads[n], nullptr, run, (void *)(seed * 16 + round * 4 + n));
		for (pthread_t thread : threads)
			pthread_join(thread, nullptr);
	}
	return 0;
}
