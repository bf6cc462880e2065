/* dlsym() learns from its return address who asks; the wrapper jumps to it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static int found;
__attribute__((noinline)) void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }
void deed(int n) { found = next_of(n % 2 ? "puts" : "getenv") != 0; }
int run(int (*outer)(int), int n) { int result = outer(n); return result + 100 * found; }
