/* Strings, buffers and pointers to read, and comparisons to make. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Not every kernel waits for a page that is not there yet. */
#define TOUCHED(text) ((void)*(const volatile char *)(text), (text))

struct node {
	long key;
	struct node *next;
	char name[16];
};

__attribute__((noinline)) long take_string(const char *text, long length)
{
	__asm__ volatile("" ::"r"(text), "r"(length) : "memory");
	return length;
}

__attribute__((noinline)) long take_node(const struct node *node, int which)
{
	__asm__ volatile("" ::"r"(node) : "memory");
	return node ? node->key + which : -1;
}

__attribute__((noinline)) void take_cold(const char *text)
{
	__asm__ volatile("" ::"r"(text) : "memory");
}

struct large {
	long words[4];
};

/* A result in memory, whose address the calls within it do not leave in its register. */
__attribute__((noinline, noclone)) struct large make_large(long n)
{
	struct large made = { { n, 10 * n, 100 * n } };

	if (n > 1)
		made.words[3] = make_large(n - 1).words[1];
	return made;
}

int main(int argc, char *argv[])
{
	/* Nobody has read this page yet: the file begins with \177ELF. */
	const char *cold = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[0], O_RDONLY), 0);
	struct node second = { 22, NULL, "second" }, first = { 11, &second, "first" };
	char *long_text = malloc(10001);

	memset(long_text, 'x', 10000);
	long_text[10000] = 0;
	take_string(TOUCHED("octi"), 4);
	take_string(TOUCHED(""), 0);
	take_string(TOUCHED("fest and more"), 4);
	take_string(long_text, 10000);
	take_string((const char *)0x8000, 4);
	take_node(&first, 1);
	take_node(&second, 2);
	take_node(NULL, 3);
	for (long i = -5; i < 5; i++)
		take_string(TOUCHED("n"), i);
	take_cold(cold + 1);
	for (long i = 1; i < 4; i++)
		make_large(i);
	return 0;
}
