/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * System calls that may execute a program: when they return, the stack and the memory of the program
 * that made them are gone, and a thread that was not its first one has another number.
 */
#ifndef EXECUTING_H
#define EXECUTING_H

#include "generic.h"

struct lbt_executing {
	struct lbt_call_key key; /* of the call in open_calls */
	__u64 faults;
	char text[LBT_CHUNKS][LBT_SMALL_CHUNK];
};

/* What waits for the return of such a call, by the thread's task. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct lbt_executing);
	__uint(max_entries, 256);
} executing_calls SEC(".maps");

/* in a section of its own: .rodata is that of programs that do not have this file */
const struct lbt_executing no_executing SEC(".rodata.executing") = {};

static __always_inline struct pt_regs *user_registers(void)
{
	return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
}

/* The system call of a thread that waits, by the position of the probe that opens it, and its key. */
static __noinline struct lbt_open_call *find_syscall(__u64 probe, struct lbt_call_key *key)
{
	struct pt_regs *regs = user_registers();
	struct hit at = {};

	if (!identify(&at))
		return NULL;
	key->frame = STACK_POINTER(regs) - 8; /* as lbtrace/plan/syscalls.py has calls below */
	key->thread = at.tid;
	key->probe = probe;
	return bpf_map_lookup_elem(&open_calls, key);
}

/*
 * A call has begun that may execute a program: keeps its texts, if it waits. What is not static is
 * verified once, not for each way that leads here.
 */
__noinline int keep_executing(__u64 probe)
{
	__u64 task = bpf_get_current_task();
	struct lbt_call_key key = {};
	struct lbt_open_call *call = find_syscall(probe, &key);
	struct lbt_executing *kept;
	const struct lbt_spec *spec = call ? bpf_map_lookup_elem(&specs, &call->spec) : NULL;

	if (!spec)
		return 0;
	bpf_map_update_elem(&executing_calls, &task, &no_executing, 0);
	kept = bpf_map_lookup_elem(&executing_calls, &task);
	if (!kept)
		return 0;
	kept->key = key;
	for (int i = 0; i < LBT_CHUNKS; i++) {
		__u64 slot = spec->text_slot[i];
		long got;

		if (slot >= LBT_FETCHES)
			break;
		barrier_var(slot);
		slot &= LBT_FETCHES - 1;
		if (call->values[slot] < LBT_LOWEST)
			continue; /* a null pointer, as at the end of the arguments */
		got = bpf_probe_read_user_str(kept->text[i], LBT_SMALL_CHUNK,
					      (const void *)call->values[slot]);
		if (got < 0 || spec->fetch[slot].read != LBT_STRING ||
		    (got == LBT_SMALL_CHUNK && spec->fetch[slot].limit >= LBT_SMALL_CHUNK))
			kept->faults |= 1 << slot;
	}
	return 0;
}

static __noinline void follow_room(const struct lbt_call_key *from, const struct lbt_call_key *to)
{
	struct lbt_room *room = bpf_map_lookup_elem(&rooms, from);

	if (!room)
		return;
	bpf_map_update_elem(&rooms, to, room, 0);
	bpf_map_delete_elem(&rooms, from);
}

static __noinline void follow_nesting(const struct lbt_call_key *to)
{
	struct lbt_nesting_lane lane = { .thread = to->thread };
	struct lbt_innermost *innermost = bpf_map_lookup_elem(&innermost_calls, &lane);

	if (innermost)
		*innermost = (struct lbt_innermost){ .frame = to->frame, .probe = to->probe };
}

/*
 * Such a call returns. If it has executed a program, it waits where it will be looked for now, and its
 * texts are those that were kept.
 */
__noinline int follow_executed(void)
{
	__u64 task = bpf_get_current_task();
	struct lbt_executing *kept = bpf_map_lookup_elem(&executing_calls, &task);
	struct lbt_open_call *call = kept ? bpf_map_lookup_elem(&open_calls, &kept->key) : NULL;
	const struct lbt_spec *spec = call ? bpf_map_lookup_elem(&specs, &call->spec) : NULL;
	struct lbt_call_key key = {};

	if (!spec || RESULT0(user_registers()))
		return 0;
	for (int i = 0; i < LBT_CHUNKS; i++) {
		__u64 slot = spec->text_slot[i];

		if (slot >= LBT_FETCHES)
			break;
		barrier_var(slot);
		slot &= LBT_FETCHES - 1;
		if (call->values[slot] >= LBT_LOWEST)
			call->values[slot] = (__u64)kept->text[i];
	}
	call->faults |= kept->faults;
	call->around_frame = 0; /* it was the program's */
	if (find_syscall(kept->key.probe, &key) == call)
		return 0;
	bpf_map_update_elem(&open_calls, &key, call, 0);
	bpf_map_delete_elem(&open_calls, &kept->key);
	if (config.rooms)
		follow_room(&kept->key, &key);
	if (config.nesting)
		follow_nesting(&key);
	return 0;
}

static __noinline void forget_executing(void)
{
	__u64 task = bpf_get_current_task();

	bpf_map_delete_elem(&executing_calls, &task);
}

#endif
