/* Hits of probes that the kernel skips. */
#ifndef LBT_MISSES_H
#define LBT_MISSES_H

/* How often the kernel skipped a program because it was running already. */
long long lbt_program_misses(int fd);

#endif
