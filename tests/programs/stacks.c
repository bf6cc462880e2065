/*
 * Coroutines on stacks of all kinds, whose memory is used again: as another one's, as a
 * thread's stack, for ordinary calls. What it does depends on a seed. It logs each
 * call with its depth on the stack it is made on.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define NOINLINE __attribute__((noinline))

static __thread int *depth;
static unsigned long state;

static int below(int n)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (state >> 33) % n;
}

NOINLINE int work(int n)
{
	volatile char pad[700];
	int sum = n;

	printf("work %d\n", (*depth)++);
	memset((char *)pad, n, sizeof(pad));
	if (n > 0)
		sum += work(n - 1);
	--*depth;
	return sum + pad[3];
}

struct coroutine {
	ucontext_t here, back;
	int depth, rounds, left;
};

static __thread struct coroutine *running;

static void yield(void)
{
	struct coroutine *me = running;

	swapcontext(&me->here, &me->back);
}

NOINLINE int body(int rounds)
{
	printf("body %d\n", (*depth)++);
	for (int i = 0; i < rounds; i++) {
		work(below(4));
		yield();
	}
	work(1);
	--*depth;
	return rounds;
}

static void begin(int high, int low)
{
	struct coroutine *me = (void *)((unsigned long)(unsigned)high << 32 | (unsigned)low);

	body(me->rounds);
	me->left = 0;
}

static void resume(struct coroutine *it)
{
	struct coroutine *outer = running;
	int *former = depth;

	running = it;
	depth = &it->depth;
	swapcontext(&it->back, &it->here);
	depth = former;
	running = outer;
}

static void set_up(struct coroutine *it, char *stack, unsigned long size)
{
	memset(it, 0, sizeof(*it));
	getcontext(&it->here);
	it->here.uc_link = &it->back;
	it->here.uc_stack.ss_sp = stack;
	it->here.uc_stack.ss_size = size;
	it->rounds = below(4);
	it->left = 1;
	makecontext(&it->here, (void (*)(void))begin, 2, (int)((unsigned long)it >> 32),
		    (int)(unsigned long)it);
}

/* To its end, or until it is given up. */
static void run(struct coroutine *it)
{
	int patience = below(5);

	while (it->left && (below(2) || patience-- > 0)) {
		resume(it);
		if (below(2))
			work(below(3));
	}
}

NOINLINE int on_array(int size)
{
	char stack[size + 40000];
	struct coroutine it;

	printf("on_array %d\n", (*depth)++);
	set_up(&it, stack, sizeof(stack));
	run(&it);
	--*depth;
	return stack[0];
}

NOINLINE int on_heap(int size)
{
	char *stack = malloc(size + 40000);
	struct coroutine it;

	printf("on_heap %d\n", (*depth)++);
	set_up(&it, stack, size + 40000);
	run(&it);
	free(stack);
	--*depth;
	return size;
}

NOINLINE int on_map(int size)
{
	unsigned long length = below(2) ? 8392704 : 65536 + (size & ~4095);
	char *stack = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct coroutine it;

	printf("on_map %d\n", (*depth)++);
	set_up(&it, stack, length);
	run(&it);
	munmap(stack, length);
	--*depth;
	return size;
}

static void act(int steps);

static void *thread(void *steps)
{
	int own = 0;

	depth = &own;
	work(2);
	act((long)steps);
	return NULL;
}

static void act(int steps)
{
	pthread_t other;

	while (steps-- > 0) {
		switch (below(6)) {
		case 0:
			on_array(below(30000));
			break;
		case 1:
			on_heap(below(300000));
			break;
		case 2:
			on_map(below(300000));
			break;
		case 3:
			pthread_create(&other, NULL, thread, (void *)(long)(steps / 2));
			pthread_join(other, NULL);
			break;
		default:
			work(below(60));
		}
	}
}

int main(int argc, char **argv)
{
	int own = 0;

	depth = &own;
	state = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	act(argc > 2 ? atoi(argv[2]) : 30);
	return 0;
}
