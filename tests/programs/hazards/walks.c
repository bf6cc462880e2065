/* Frame pointers are followed to the return addresses of callers. */
static char *program;
static int depth;
__attribute__((noinline)) static int inside(char *address)
{
	return address > program - 4096 && address < program + 4096;
}
void deed(int n)
{
	char **frame = __builtin_frame_address(0);

	(void)n;
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
