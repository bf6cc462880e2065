/* Frame pointers are followed to the return addresses of callers, far from the beginning. */
static char *program;
static long counts[64];
static int depth;
__attribute__((noinline)) static int inside(char *address)
{
	return address > program - 4096 && address < program + 4096;
}
void deed(int n)
{
	depth = 0;
	for (int i = 0; i < 64; i++) {
		counts[i] = counts[i] * 31 + n + i;
		if (counts[i] > 1000000)
			counts[i] = 0;
	}
	for (int i = 1; i < 64; i++)
		counts[0] ^= counts[i] + 7 * i;
	for (char **frame = __builtin_frame_address(0); depth < 8; depth++) {
		char **next = (char **)frame[0];

		if (!inside(frame[1]) || next <= frame || next > frame + 4096)
			break;
		frame = next;
	}
}
int run(int (*outer)(int), int n)
{
	program = (char *)outer;
	return outer(n) + 100 * depth;
}
