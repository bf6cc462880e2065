/* Events of the kernel's tracepoints. */
#ifndef LBT_TRACEPOINT_H
#define LBT_TRACEPOINT_H

#include <stdint.h>

/*
 * Opens the event of the tracepoint that tracefs gives this number. A program that is attached to it
 * runs at every hit, on whatever CPU. A file descriptor, or less -errno.
 */
int lbt_open_tracepoint(uint64_t number);

#endif
