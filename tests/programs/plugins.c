/* Loads plugins with markers, waits until these are traced, and comes to them in functions of its
 * own, all of which it logs: the process, the depth, the name and a number.
 *
 * plugins LOG [PLUGIN | ready | fork]...
 * ready: says so and waits for input, before it loads the next plugin; fork: does some in a child
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLUGINS 4

typedef void stub(long, int);

static FILE *file;
static stub *sale[PLUGINS];
static int plugins, depth;

static void note(const char *name, long number)
{
	fprintf(file, "%d %d %s %ld\n", getpid(), depth, name, number);
}

__attribute__((noinline)) long inner(long number)
{
	note("inner", number);
	depth++;
	for (int n = 0; n < plugins; n++) {
		note("shop:sale", number + n);
		sale[n](number + n, -(int)(number + n)); /* a line of its own */
	}
	depth--;
	return number + 1;
}

__attribute__((noinline)) long outer(long number)
{
	long found;

	note("outer", number);
	depth++;
	found = inner(number);
	depth--;
	return found + 1;
}

/* As libstapsdt's probeIsEnabled does: by the first byte of the stub. */
static int is_enabled(stub *function)
{
	return (*(volatile unsigned char *)function & 0x90) != 0x90;
}

static void load(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);

	if (!plugin)
		exit(3);
	sale[plugins++] = (stub *)dlsym(plugin, "sale");
}

static void await(void)
{
	for (int n = 0; n < plugins; n++)
		for (int turn = 0; !is_enabled(sale[n]); turn++) {
			if (turn > 20000)
				exit(4);
			usleep(1000);
		}
}

int main(int count, char **words)
{
	int forks = 0;

	file = fopen(words[1], "w");
	setlinebuf(file);
	for (int number = 2; number < count; number++) {
		if (!strcmp(words[number], "ready")) {
			puts("ready");
			fflush(stdout);
			getchar();
		} else if (!strcmp(words[number], "fork")) {
			forks = 1;
		} else {
			load(words[number]);
		}
	}
	await();
	if (plugins)
		usleep(300000); /* a plain probe's breakpoint is there before what it runs is attached */
	for (long n = 0; n < 50; n++) {
		outer(10 * n);
		inner(1000 + 10 * n);
	}
	if (forks && !fork()) {
		outer(5000);
		inner(6000);
		_exit(0);
	}
	if (forks)
		wait(NULL);
	return 0;
}
