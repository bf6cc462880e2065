// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/*
 * The programs of trace.bpf.c for kernels that look up no mapping (before 5.17): some of them refuse
 * an object that has callbacks, called or not (before 5.13).
 */
#define LBT_EARLY
#include "trace.bpf.c"
