/* Strings, buffers and pointers to read, and comparisons to make. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
	struct node second = { 22, NULL, "second" }, first = { 11, &second, "first" };
	char *long_text = malloc(10001);

	memset(long_text, 'x', 10000);
	long_text[10000] = 0;
	take_string("octi", 4);
	take_string("", 0);
	take_string("fest and more", 4);
	take_string(long_text, 10000);
	take_string((const char *)0x8000, 4);
	take_node(&first, 1);
	take_node(&second, 2);
	take_node(NULL, 3);
	for (long i = -5; i < 5; i++)
		take_string("n", i);
	return 0;
}
