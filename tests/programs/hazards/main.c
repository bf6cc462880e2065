/* Functions that something happens through: a module's run() calls them, and they call its
   deed(). The module is a part of the program, a library, or a plugin that is opened. */
#include <stdio.h>
#ifdef PLUGIN
#include <dlfcn.h>
static int (*run)(int (*)(int), int);
static void (*deed)(int);
#else
int run(int (*)(int), int);
void deed(int);
#endif
#define TRACED __attribute__((noinline))

TRACED int f_plain(int n) { __asm__ volatile(""); return n + 1; }
TRACED int f_inner(int n)
{
	deed(n);
	return f_plain(n) * 2;
}
TRACED int f_outer(int n)
{
	int result = f_inner(n);
	__asm__ volatile("");
	return result + f_plain(n);
}

int main(int argc, char **argv)
{
	(void)argc, (void)argv;
#ifdef PLUGIN
	void *plugin = dlopen(argv[1], RTLD_NOW);
	if (!plugin)
		return puts(dlerror()), 9;
	run = (int (*)(int (*)(int), int))dlsym(plugin, "run");
	deed = (void (*)(int))dlsym(plugin, "deed");
#endif
	for (int n = 0; n < 4; n++)
		printf("%d: %d\n", n, run(f_outer, n));
	return 0;
}
