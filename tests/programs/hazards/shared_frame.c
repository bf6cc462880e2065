/* Functions that jump to others as their last act, and leave the address of their frame with them. */
#include <stdio.h>

#define APART __attribute__((noinline, noclone))
#define FRAME ((char **)__builtin_frame_address(0))

extern char __executable_start[];
struct lock {
	int held;
	char *owner;
};
static char **kept;
static int steps;

static int from_start(char *address)
{
	return (int)(address - __executable_start);
}
APART void note(struct lock *lock, char **frame)
{
	lock->owner = frame[1];
	lock->held++;
}
APART void take(struct lock *lock)
{
	steps++;
	note(lock, FRAME);
}
APART int last(char **frame, int n)
{
	return from_start(frame[1]) + n;
}
APART int middle(char **frame, int n)
{
	return last(frame, n + (n > 1 ? 7 : 1));
}
APART int first(int n)
{
	return middle(FRAME, n);
}
APART int calling(int n, char **frame)
{
	return last(frame, n) * 2;
}
APART int begins(int n)
{
	return calling(n + 1, FRAME);
}
APART int recalls(int n)
{
	return from_start(kept[1]) + n;
}
APART int stores(int n)
{
	kept = FRAME;
	return recalls(n + 1);
}
int main(void)
{
	struct lock lock = {0};

	for (int n = 0; n < 3; n++) {
		take(&lock);
		printf("%d %d %d ", first(n), begins(n), stores(n));
	}
	printf("%d %d\n", lock.held, from_start(lock.owner));
	return 0;
}
