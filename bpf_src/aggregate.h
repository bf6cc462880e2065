/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* What the actions that aggregate in the kernel share. */
#ifndef AGGREGATE_H
#define AGGREGATE_H

#include "relays.h"
#include "texts.h"

/*
 * The map NAME_map, where action NAME aggregates: values by a struct lbt_aggregate_key, of which keys
 * have as much as the trace needs. A value is words of 64 bits, of which the first says how many hits
 * it is made of. User space sizes it when it is loaded. Where keys are values, so that there are many,
 * all CPUs share it.
 */
#define AGGREGATES(name, type_of_value)                                                            \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_HASH);                                            \
		__uint(key_size, sizeof(struct lbt_aggregate_key));                                \
		__uint(value_size, sizeof(type_of_value));                                         \
		__uint(max_entries, 1);                                                            \
	} name##_map SEC(".maps");                                                                 \
	const type_of_value name##_zero = {}

/*
 * Where a key is made of values: a stack has no room for it, and what a CPU had would be another
 * thread's after a preemption. What is known at the entry waits here for the return.
 */
struct lbt_room {
	struct lbt_aggregate_key key;
	__u64 values[LBT_ROOM_VALUES]; /* by slot; from LBT_FROM_ENTRY on those of the entry */
	__u32 faults;
	__u32 entry_faults;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lbt_call_key);
	__type(value, struct lbt_room);
	__uint(max_entries, 1);
	__uint(map_flags, LBT_NO_PREALLOC);
} rooms SEC(".maps");

const struct lbt_room no_room = {};

/* Adds to the key of a room what this probe knows of it. */
static __noinline void fill_room(struct lbt_room *room, const struct lbt_spec *spec,
				 const __u64 *values, __u32 faults, bool waits)
{
	const __u32 many = N_VALUES, first = waits ? LBT_FROM_ENTRY : 0;

	for (int i = 0; i < LBT_SLOTS; i++)
		room->values[first + i] = values[i];
	if (waits)
		room->entry_faults = faults;
	else
		room->faults = faults;
	for (int i = 0; i < LBT_KEY_WORDS; i++) {
		__u64 slot = spec->by[i];
		__u64 value, fault;

		if (i < LBT_KEY_TEXTS && config.key_texts && slot == LBT_SLOT_COMM)
			bpf_get_current_comm(room->key.text[i], LBT_COMM);
		if (slot >= LBT_SLOTS)
			continue;
		barrier_var(slot);
		slot &= LBT_FROM_ENTRY - 1;
		fault = faults >> slot & 1;
		value = room->values[first + slot];
		if (i < LBT_KEY_TEXTS && config.key_texts && spec->text_slots >> slot & 1) {
			const struct lbt_fetch *f = &spec->fetch[slot & (LBT_FETCHES - 1)];

			if (!fault && slot < many)
				fault = !!copy_text(f, &room->values[first], room->key.text[i],
						    LBT_SMALL_CHUNK, &value);
			/* of what is cut, how much is one */
			if (!fault && value >> 32 != (__u32)value)
				value |= 0xffffffffULL << 32;
		}
		room->key.words[i] = value;
		room->key.faults |= fault << i;
	}
}

/*
 * What this CPU, or all, have aggregated at a key, zeros at first. NULL where there is no room, which
 * is counted.
 *
 * The program of a uprobe may be preempted and continue on another CPU: what it finds here is
 * changed by ADD, never read and written back.
 */
static __always_inline void *aggregated(void *map, const struct lbt_simple_key *key, const void *zero)
{
	void *found = bpf_map_lookup_elem(map, key);

	if (!found) {
		/* another thread may have added it first */
		bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
		found = bpf_map_lookup_elem(map, key);
	}
	if (!found)
		increment(LBT_UNCOUNTED);
	return found;
}

/* The room of a call: a new one, or that which the entry has left for its return. */
static __noinline struct lbt_room *room_of(const struct hit *at, bool is_new)
{
	struct lbt_call_key key = key_of(at, at->entry);

	if (is_new && bpf_map_update_elem(&rooms, &key, &no_room, 0)) {
		increment(LBT_UNCOUNTED);
		return NULL;
	}
	return bpf_map_lookup_elem(&rooms, &key);
}

static __noinline void leave_room(const struct hit *at)
{
	struct lbt_call_key key = key_of(at, at->entry);

	bpf_map_delete_elem(&rooms, &key);
}

/* Keeps what is known at the entry of a call that is aggregated at its return. */
static __noinline void keep_room(const struct hit *at, const struct lbt_spec *spec,
				 const __u64 *values, __u32 faults)
{
	struct lbt_room *room = room_of(at, true);

	if (room)
		fill_room(room, spec, values, faults, true);
}

/* The room of a hit whose action is done now, with its whole key. */
static __always_inline struct lbt_room *take_room(const struct hit *at, const struct lbt_spec *spec,
						  const __u64 *values, __u32 faults)
{
	struct lbt_room *room = room_of(at, !spec->has_room);

	if (!room)
		return NULL;
	room->key.probe = at->probe;
	room->key.pid = config.by_pid ? at->pid : 0;
	fill_room(room, spec, values, faults, false);
	return room;
}

/* 1 if a value that an action takes may be negative, else 0. */
static __always_inline __u64 has_sign(const struct lbt_spec *spec, __u32 place)
{
	return ~(__u64)spec->unsigned_measures >> place & 1;
}

/* The high half of a value, which is as signed as that. */
static __always_inline __u64 high_half(__u64 value, __u64 has_sign)
{
	return (value >> 32) - (value >> 63 & has_sign) * (1ULL << 32);
}

/*
 * A value that an action takes, by its place among them. False where there is none: a duration is 0
 * where the beginning of the call was not seen.
 */
static __always_inline bool measure_value(const struct lbt_simple_key *key,
					  const struct lbt_spec *spec, const __u64 *values,
					  __u32 faults, __u32 place, __u64 *value)
{
	const struct lbt_room *room = (const struct lbt_room *)key;
	__u64 slot = spec->measures[place];

	if (config.rooms) {
		barrier_var(slot);
		*value = room->values[slot & (LBT_ROOM_VALUES - 1)];
		if (slot >= LBT_FROM_ENTRY)
			faults = room->entry_faults;
	} else {
		*value = select_slot(values, slot);
	}
	if (slot == LBT_SLOT_DURATION && !*value)
		return false;
	return !(faults >> (slot & (LBT_FROM_ENTRY - 1)) & 1);
}

#endif
