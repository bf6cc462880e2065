/* Return addresses are looked at: how deep the stack is, and who called. */
#include <execinfo.h>
static int depth;
void deed(int n)
{
	void *found[64];
	(void)n;
	depth = backtrace(found, 64);
}
__attribute__((noinline)) static int inside(char *address, char *start)
{
	return address > start && address < start + 512;
}
__attribute__((noinline)) int who(void)
{
	return inside(__builtin_return_address(0), (char *)who - 256);
}
int run(int (*outer)(int), int n) { int found = outer(n); return found + 100 * depth + 10000 * who(); }
