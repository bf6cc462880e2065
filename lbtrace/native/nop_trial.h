/* What the running kernel makes of a probe on a long nop, found by trying. */
#ifndef LBT_NOP_TRIAL_H
#define LBT_NOP_TRIAL_H

#include <stddef.h>

enum lbt_nop_findings {
	LBT_NOP_REPLACED = 1, /* after some hits there is a call in its place */
	LBT_NOP_EXACT = 2,    /* as a function's first instruction it changes nothing else, and */
			      /* processes that seccomp confines may execute it */
	LBT_NOP_FORKS = 4,    /* nor in the memory of a process that is forked later */
	LBT_NOP_RED_ZONE = 8, /* nor what leaf functions keep below the stack pointer */
	LBT_NOP_TRIED = 16,
};

/* Findings about the instruction of that size; 0 where it cannot be tried. */
int lbt_try_nop(const unsigned char *nop, size_t size);

#endif
