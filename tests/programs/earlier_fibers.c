/*
 * Fibers that exist and wait inside of calls before anybody looks, each on a mapping with a guard
 * page. Threads take them up at random until standard input ends. Each call is logged by its number
 * and its caller's, where it begins and where it returns.
 *
 *     earlier_fibers contexts|jumps SEED THREADS
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define FIBERS 9
#define SIZE (1 << 16)

struct fiber {
	ucontext_t here;
	sigjmp_buf jump;
	int busy, begun, over;
	char *stack;
};

static struct fiber fibers[FIBERS];
static ucontext_t back[4];
static sigjmp_buf jumps_back[4];
static int jumps, threads, stop, calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned long state;
static __thread int thread;

/* Not inlined, because a fiber may find itself on another thread. */
NOINLINE static int below(int n)
{
	asm volatile("");
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (state >> 33) % n;
}

NOINLINE static int which(void)
{
	asm volatile("");
	return thread;
}

static void yield(struct fiber *me)
{
	if (below(3))
		return;
	if (!jumps)
		swapcontext(&me->here, &back[which()]);
	else if (!sigsetjmp(me->jump, 0))
		siglongjmp(jumps_back[which()], 1);
}

NOINLINE int work(int call, int caller, struct fiber *me, int depth)
{
	int more = 0;

	printf("enter %d %d\n", call, caller);
	yield(me);
	for (int n = below(3); n && depth < 4; n--)
		more += work(__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED), call, me, depth + 1);
	yield(me);
	printf("leave %d %d\n", call, more + 1);
	return more + 1;
}

static void run(int number)
{
	struct fiber *me = &fibers[number];

	for (int n = below(40); n; n--) {
		work(__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED), 0, me, 0);
		yield(me);
	}
	me->over = 1;
	if (jumps)
		siglongjmp(jumps_back[which()], 1);
	if (threads > 1)
		setcontext(&back[which()]);
}

static void make(struct fiber *it)
{
	getcontext(&it->here);
	it->here.uc_stack.ss_size = SIZE;
	it->here.uc_stack.ss_sp = it->stack;
	it->here.uc_link = &back[0];
	it->begun = it->over = 0;
	makecontext(&it->here, (void (*)(void))run, 1, (int)(it - fibers));
}

NOINLINE int turn(struct fiber *it)
{
	const int begun = it->begun;

	it->begun = 1;
	if (!jumps)
		swapcontext(&back[thread], &it->here);
	else if (!sigsetjmp(jumps_back[thread], 0))
		begun ? siglongjmp(it->jump, 1) : (void)setcontext(&it->here);
	return it - fibers;
}

static void *schedule(void *number)
{
	struct pollfd input = {.events = POLLIN};

	thread = (long)number;
	state += 7 * thread;
	for (int round = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); round++) {
		struct fiber *it = &fibers[below(FIBERS)];

		pthread_mutex_lock(&lock);
		if (it->busy)
			it = NULL;
		else
			it->busy = 1;
		pthread_mutex_unlock(&lock);
		if (it) {
			if (it->over)
				make(it);
			turn(it);
			__atomic_store_n(&it->busy, 0, __ATOMIC_RELEASE);
		}
		if (!thread && round == 99)
			printf("ready\n");
		if (!thread && round > 99 && poll(&input, 1, 0))
			__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
		if (round > 60)
			usleep(200);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t others[4];

	setvbuf(stdout, NULL, _IOLBF, 0);
	jumps = !strcmp(argv[1], "jumps");
	state = atoi(argv[2]);
	threads = atoi(argv[3]);
	for (int n = 0; n < FIBERS; n++) {
		fibers[n].stack = mmap(0, SIZE, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(fibers[n].stack, 4096, PROT_NONE);
		make(&fibers[n]);
	}
	for (long n = 1; n < threads; n++)
		pthread_create(&others[n], NULL, schedule, (void *)n);
	schedule(NULL);
	for (long n = 1; n < threads; n++)
		pthread_join(others[n], NULL);
	return 0;
}
