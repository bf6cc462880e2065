/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Processes that may continue calls of those that have forked them. */
#ifndef HEIRS_H
#define HEIRS_H

#include "state.h"

/*
 * By tgid in the initial namespace, the stack pointer where the process was forked: calls of lower
 * frames are its own. A stale entry costs an event for a fork, and for returns that are left out
 * otherwise.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 4096);
} heirs SEC(".maps");

__u64 any_heirs = 0; /* there have been none while this is 0 */

/* Whether what returns may be a call that another process has made. */
static __noinline bool may_be_inherited(const struct hit *at)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 *pointer;

	if (!any_heirs)
		return false;
	pointer = bpf_map_lookup_elem(&heirs, &tgid);
	return pointer && at->frame + LBT_RETURN_SLOT >= *pointer;
}

#endif
