/* A handler on a stack above the thread's calls into a library, in the middle of a call of it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SIZE (1 << 20)

static int flags, waits;

__attribute__((noinline)) static void inner(int number)
{
	if (!number)
		puts(getenv("ANY"));
}

static void handler(int number)
{
	getenv("ANY");
	inner(number);
	inner(number + 1);
}

__attribute__((noinline)) static int compare(const void *a, const void *b)
{
	raise(SIGUSR1);
	return *(const int *)a - *(const int *)b;
}

static void *run(void *above)
{
	stack_t stack = {.ss_sp = above, .ss_size = SIZE / 2, .ss_flags = flags};
	int numbers[] = {3, 1, 2};

	if (sigaltstack(&stack, NULL))
		return NULL;
	if (waits) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	qsort(numbers, 3, sizeof(int), compare);
	printf("sorted %d %d %d\n", numbers[0], numbers[1], numbers[2]);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	char *memory = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	waits = argc > 2;
	if (argc > 1 && !strcmp(argv[1], "disarm"))
		flags = 1 << 31; /* SS_AUTODISARM */
	sigaction(SIGUSR1, &action, NULL);
	mprotect(memory + SIZE, 4096, PROT_NONE); /* so that the stacks are two mappings */
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, memory, SIZE);
	pthread_create(&thread, &attributes, run, memory + SIZE + 4096);
	pthread_join(thread, NULL);
	return 0;
}
