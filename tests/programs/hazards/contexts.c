/* Two coroutines take turns in the middle. */
#include <stdlib.h>
#include <ucontext.h>
static ucontext_t home, away[2];
static int (*called)(int), results[2], turn;
static void coroutine(int number) { results[number] = called(number + 1); turn = 2; }
void deed(int n)
{
	(void)n;
	int me = turn;
	if (me < 2)
		swapcontext(&away[me], &home);
}
int run(int (*outer)(int), int n)
{
	if (!n)
		return (turn = 2, outer(n));
	called = outer;
	for (int i = 0; i < 2; i++) {
		getcontext(&away[i]);
		away[i].uc_stack.ss_sp = malloc(65536);
		away[i].uc_stack.ss_size = 65536;
		away[i].uc_link = &home;
		makecontext(&away[i], (void (*)(void))coroutine, 1, i);
	}
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 2; i++)
			turn = i, swapcontext(&home, &away[i]);
	return results[0] * 1000 + results[1];
}
