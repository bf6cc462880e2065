// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/*
 * Sends an event for each hit of a probe: a call opens, a call closes, or something else happens.
 *
 * Which program is attached where is user space's choice (lbtrace/probes): entered and
 * returned as a pair (plain or multi), or session for both. What an event holds is in
 * the specs; nothing is generated at run time. The programs are those of all files of
 * bpf_src/programs, what becomes of hits those of bpf_src/actions.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "lbtrace.h"
#include "registers.h"
#ifdef LBT_ATOMIC /* atomic.bpf.c */
#include "atomic_programs.h"
#else
#include "programs.h"
#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";
