/* Functions of x86-64 that read return addresses by their frame pointers, in all code of a file. */
#ifndef LBT_WALKERS_H
#define LBT_WALKERS_H

#include <stddef.h>

enum lbt_walking {
	LBT_NO_WALKER, /* there is no more */
	LBT_WALKER,    /* the function at start takes its frame pointer, or what that leads to, at at */
	LBT_UNREAD,    /* the instruction at at is left to a full decoder */
};

/*
 * How far the search has come. In a function that began at start, rbp is its frame pointer if framed;
 * where it leaves, rbp has been restored, and is so again behind what ends this way. Code that lies
 * apart, behind padding, may be of another function.
 */
struct lbt_walk {
	size_t start, at, ends;
	int inside, framed, leaves, apart;
};

/* Searches on; what was found, the next call passes over. */
int lbt_next_walker(const unsigned char *code, size_t size, struct lbt_walk *walk);

#endif
