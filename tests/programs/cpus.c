/* A thread that moves between two processors: cpus FIRST SECOND */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#define TRACED __attribute__((noipa)) int

static void go(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		abort();
}

TRACED leaf(int from, int to)
{
	return from + to;
}

TRACED move(int from, int to)
{
	go(to);
	return from + to;
}

TRACED outer(int from, int to)
{
	return leaf(from, from) + move(from, to) + leaf(to, to);
}

int main(int argc, char **argv)
{
	int cpus[2] = { atoi(argv[1]), atoi(argv[argc - 1]) };

	srand(atoi(argv[1]) + 7);
	for (int i = 0; i < 100; i++) {
		int from = cpus[rand() / 8 % 2], to = cpus[rand() / 8 % 2];

		go(from);
		move(from, to);
		go(from);
		outer(from, to);
	}
	return 0;
}
