/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Texts that cannot be read, which are lost, or read again when a system call ends. */
#ifndef UNREAD_TEXTS_H
#define UNREAD_TEXTS_H

#include "fetch.h"

#ifdef LBT_ATOMIC

/* How many texts could not be read when a system call began, by the tid of its thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 4096);
} unread_texts SEC(".maps");

/*
 * When the call ends the page may be there: then the text is read again, and is not lost, if it is of a
 * system call: those are of the program.
 */
static __noinline void lose_text(const struct lbt_event *e, const struct lbt_fetch *f)
{
	__u32 tid = bpf_get_current_pid_tgid(), one = 1, *lost;

	if (f->space != LBT_USER) {
		increment(LBT_STRING_FAULT);
		return;
	}
	if ((e->kind & LBT_KIND_MASK) != LBT_OPEN)
		return;
	increment(LBT_STRING_FAULT);
	lost = bpf_map_lookup_elem(&unread_texts, &tid);
	if (lost)
		*lost += 1;
	else if (!bpf_map_update_elem(&unread_texts, &tid, &one, 0))
		ADD(&any_unread, 1);
}

static __noinline void find_text(const struct lbt_event *e, const struct lbt_fetch *f)
{
	__u32 counter = LBT_STRING_FAULT, tid = bpf_get_current_pid_tgid(), *lost;
	__u64 *slot;

	if (!any_unread || (e->kind & LBT_KIND_MASK) != LBT_CLOSE || f->space != LBT_USER)
		return;
	lost = bpf_map_lookup_elem(&unread_texts, &tid);
	if (!lost || !*lost)
		return;
	*lost -= 1;
	slot = bpf_map_lookup_elem(&counters, &counter);
	if (slot)
		ADD(slot, -1);
}

/* A call is left out, as these are the results of its conditions on texts: see compare_texts(). */
static __always_inline void lose_comparison(__u32 results)
{
	if (results >> 1 & ~results & 0x55555555)
		increment(LBT_STRING_FAULT);
}

#else

static __always_inline void lose_comparison(__u32 results)
{
}

static __always_inline void lose_text(const struct lbt_event *e, const struct lbt_fetch *f)
{
	increment(LBT_STRING_FAULT);
}

static __always_inline void find_text(const struct lbt_event *e, const struct lbt_fetch *f)
{
}

#endif

#endif
