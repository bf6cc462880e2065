/* A function looks at its own return address, and at those of its callers. */
static char *program;
static int depth;
__attribute__((noinline)) static int inside(char *address)
{
	return address > program - 4096 && address < program + 4096;
}
void deed(int n)
{
	(void)n;
	depth = inside(__builtin_return_address(0)) + 2 * inside(__builtin_return_address(1)) +
		4 * inside(__builtin_return_address(2));
}
int run(int (*outer)(int), int n)
{
	program = (char *)outer;
	return outer(n) + 100 * depth;
}
