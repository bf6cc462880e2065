/*
 * What two fibers on stacks of their own do, and the account of it.
 *
 * Who includes this has a `sink` and `traced_last`, and says how it is done:
 */
static void prepare(int fiber);		     /* give it a stack, on which run_fiber() begins */
static void change_stacks(int from, int to); /* each a fiber, or HOME, the thread's own */

#define HOME 2
static struct shadow *shadows[3];
static long switches, wanted;

static void switch_to(int from, int to)
{
	switches++;
	shadow = shadows[to];
	change_stacks(from, to);
}

TRACED long traced_step(long n)
{
	ENTER(n);
	int self = (int)(shadow->lane >= 0 && shadow->lane < 2 ? shadow->lane : HOME);
	if (self == HOME)
		switch_to(HOME, 0);
	else
		switch_to(self, n % 7 ? 1 - self : HOME);
	RETURN(n + self);
}

TRACED long traced_fiber(long n)
{
	ENTER(n);
	long sum = 0;
	for (long i = 0; switches < wanted; i++)
		sum += traced_step(i) + (i % 3 ? 0 : traced_last(i));
	RETURN(sum);
}

static void run_fiber(void)
{
	for (;;) {
		sink += traced_fiber(shadow->lane);
		switch_to((int)shadow->lane, HOME);
	}
}

/* Until there have been so many switches. */
static void run_fibers(long count)
{
	wanted = count;
	shadows[HOME] = shadow;
	for (int i = 0; i < 2; i++) {
		prepare(i);
		shadow_new(i);
		shadows[i] = shadow;
	}
	shadow = shadows[HOME];
	for (long i = 0; switches < wanted; i++)
		sink += traced_step(i);
	for (int i = 0; i < 3; i++) {
		shadow = shadows[i];
		shadow_write();
	}
}
