/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Threads that execute programs, of whose memory nothing is left when they have. */
#ifndef EXECUTING_H
#define EXECUTING_H

#include "texts.h"

#ifdef LBT_ATOMIC

struct lbt_executing {
	__u64 pointer;	/* of the stack when the call began */
	__u32 number;	/* of the call */
	__u32 replaced; /* whether the memory is the new program's */
	__u32 kept;	/* bit n: text n could be read when the call began */
	__u64 values[LBT_CHUNKS];
	char texts[LBT_CHUNKS][LBT_SMALL_CHUNK];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32); /* tid in the initial namespace */
	__type(value, struct lbt_executing);
	__uint(max_entries, 4096);
	__uint(map_flags, LBT_NO_PREALLOC);
} executing SEC(".maps");

static __always_inline struct lbt_executing *find_executing(void)
{
	__u32 tid = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&executing, &tid);
}

static __noinline void begin_executing(__u64 pointer, __u32 number)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct lbt_executing *now;
	void *anything = bpf_map_lookup_elem(&scratch, &the_only); /* the stack has no room for it */

	if (!anything || bpf_map_update_elem(&executing, &tid, anything, 0))
		return;
	now = bpf_map_lookup_elem(&executing, &tid);
	if (!now)
		return;
	now->pointer = pointer;
	now->number = number;
	now->replaced = 0;
	now->kept = 0;
}

/* The call ends; its memory may have been ``replaced``. Returns the stack pointer when it began, if known. */
static __noinline __u64 stop_executing(__u64 pointer, __u32 replaced)
{
	struct lbt_executing *now = find_executing();

	if (!now)
		return pointer;
	now->replaced = replaced;
	return now->pointer;
}

static __noinline void forget_executing(void)
{
	__u32 tid = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&executing, &tid);
}

/* Keeps a string that lies at an address; verified once, as it is not static. */
__noinline int keep_text(__u64 from, __u32 limit, __u32 number)
{
	struct lbt_executing *now = find_executing();
	__u32 size = limit < LBT_SMALL_CHUNK - 1 ? limit + 1 : LBT_SMALL_CHUNK;
	__u64 length;
	long got;

	if (!now || number >= LBT_CHUNKS)
		return 0;
	got = bpf_probe_read_user_str(now->texts[number], size, (const void *)from);
	if (got < 0)
		return 0;
	got -= got > 0; /* some kernels (6.1) say 0, not 1, of an empty string */
	length = got == size - 1 ? rest_of_string(from + got) + got : got;
	if (length > 0xffffffff)
		length = 0xffffffff;
	now->values[number] = length << 32 | (__u32)got;
	now->kept |= 1 << number;
	return 0;
}

/* Keeps the strings of a call that begins, which is shown only when it has ended. */
static __noinline void keep_texts(const struct lbt_spec *spec, const __u64 *values, __u32 faults)
{
	if (!find_executing())
		return;
	for (int i = 0; i < LBT_CHUNKS; i++) {
		__u64 slot = spec->text_slot[i];

		if (slot >= LBT_FETCHES)
			break;
		barrier_var(slot);
		slot &= LBT_FETCHES - 1;
		if (!(faults >> slot & 1))
			keep_text(select_fetched(values, slot), spec->fetch[slot].limit, i);
	}
}

/*
 * Copies what was kept of a text to its chunk, and sets its value; negative where nothing was, 0 where
 * the memory is still that of the call.
 */
static __noinline long take_kept(__u32 number, char *to, __u64 *value)
{
	struct lbt_executing *now = find_executing();

	if (!now || !now->replaced)
		return 0;
	if (number >= LBT_CHUNKS || !(now->kept >> number & 1))
		return -1;
	bpf_probe_read_kernel(to, LBT_SMALL_CHUNK, now->texts[number]);
	*value = now->values[number];
	return 1;
}

#else

static __always_inline void keep_texts(const struct lbt_spec *spec, const __u64 *values, __u32 faults)
{
}

static __always_inline long take_kept(__u32 number, char *to, __u64 *value)
{
	return 0;
}

#endif

/* Copies a text to its chunk: as it is now, or as it was kept. */
static __always_inline long copy_any_text(const struct lbt_fetch *f, const __u64 *values, __u32 number,
					  char *to, const __u32 chunk, __u64 *value)
{
	const long kept = config.deferred ? take_kept(number, to, value) : 0;

	if (kept)
		return kept < 0 ? kept : 0;
	return copy_text(f, values, to, chunk, value);
}

#endif
