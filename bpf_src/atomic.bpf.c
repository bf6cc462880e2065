// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/*
 * The programs of bpf_src/programs/atomic, which may not sleep: newer kernels (6.18) refuse them in an
 * object with functions that may.
 */
#define LBT_ATOMIC
#pragma clang diagnostic ignored "-Wunused-function"
#include "trace.bpf.c"
