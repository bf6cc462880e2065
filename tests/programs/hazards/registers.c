/* Frame pointers are followed from the one that getcontext() finds. */
#define _GNU_SOURCE
#include <ucontext.h>
static char *program;
static int depth;
__attribute__((noinline)) static int inside(char *address)
{
	return address > program - 4096 && address < program + 4096;
}
void deed(int n)
{
	static ucontext_t context;
	char **frame;

	(void)n;
	getcontext(&context);
#ifdef __x86_64__
	frame = (char **)context.uc_mcontext.gregs[REG_RBP];
#else
	frame = (char **)context.uc_mcontext.regs[29];
#endif
	depth = 0;
	for (int i = 0; i < 4; i++) {
		char **next = (char **)frame[0];

		depth = depth * 2 + inside(frame[1]);
		if (next <= frame || next > frame + 4096)
			break;
		frame = next;
	}
}
int run(int (*outer)(int), int n)
{
	program = (char *)outer;
	return outer(n) + 100 * depth;
}
