/* Hits of probes that the kernel skips. */
#ifndef LBT_MISSES_H
#define LBT_MISSES_H

/* How often the kernel skipped a program because it was running already. */
long long lbt_program_misses(int fd);

/* How often the kernel has not run the program of a link to its own functions, or has not hooked the
 * return: 0 where it does not say. */
long long lbt_link_misses(int fd);

#endif
