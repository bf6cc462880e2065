/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* What the programs share: constants, maps, the account of losses. */
#ifndef STATE_H
#define STATE_H

#define LBT_NO_PREALLOC 1 /* BPF_F_NO_PREALLOC, include/uapi/linux/bpf.h */

const volatile struct lbt_config config SEC(".rodata.config") = {};

/* Puts the layout of an event into the object's types, for whoever checks it. */
const struct lbt_event *event_layout = 0;

__u64 any_lost = 0; /* nothing has been lost while this is 0 */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct lbt_spec);
	__uint(max_entries, 1);
} specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, LBT_COUNTERS);
} counters SEC(".maps");

/* Events lost since the lane's last one, by lane. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct lbt_loss);
	__uint(max_entries, 16384);
} pending_losses SEC(".maps");

/* Processes followed beside root, by tgid in the initial namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 16384);
} followed SEC(".maps");

/* Entered and not yet returned: the calls whose return is filtered, or needs what was there. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lbt_call_key);
	__type(value, struct lbt_open_call);
	__uint(max_entries, 65536);
	__uint(map_flags, LBT_NO_PREALLOC);
} open_calls SEC(".maps");

/* Room to read what is not kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, char[LBT_PIECE]);
	__uint(max_entries, 1);
} scratch SEC(".maps");

/* Where and when a probe was hit. */
struct place {
	__u64 time;
	__u64 stack;	/* pointer at function entry */
	__u64 frame;
	__u64 goroutine;
	__u32 probe;
	__u32 pid;
	__u32 tid;
	__u32 spec;
	__u16 kind;
	__u32 inside;	/* the tid in a pid namespace inside the reader's, or 0 */
};

/*
 * Relaxed: otherwise newer clangs write an instruction that also fetches, which
 * kernels before 5.12 refuse.
 */
#define ADD(target, number) __atomic_fetch_add(target, number, __ATOMIC_RELAXED)

static __always_inline void count(__u32 counter)
{
	__u64 *slot = bpf_map_lookup_elem(&counters, &counter);

	if (slot)
		ADD(slot, 1);
}

static __always_inline __u64 lane_of(const struct place *at)
{
	return at->goroutine ? (__u64)at->pid << LBT_LANE_BITS | at->goroutine : at->tid;
}

static __always_inline void ring_full(const struct place *at)
{
	const bool entry = at->kind == LBT_ENTRY;
	struct lbt_loss first = {
		.entries = entry, .returns = !entry, .pid = at->pid, .tid = at->tid,
	};
	__u64 lane = lane_of(at);
	struct lbt_loss *lost = bpf_map_lookup_elem(&pending_losses, &lane);

	count(entry ? LBT_RING_FULL_ENTRY : LBT_RING_FULL_RETURN);
	if (lost) {
		/* only its own lane changes them */
		lost->entries += entry;
		lost->returns += !entry;
	} else {
		bpf_map_update_elem(&pending_losses, &lane, &first, BPF_NOEXIST);
	}
	ADD(&any_lost, 1);
}

/* What an event can carry of them; the next one carries the rest. */
static __always_inline __u32 take_losses(const struct place *at)
{
	__u64 lane = lane_of(at);
	struct lbt_loss *lost = bpf_map_lookup_elem(&pending_losses, &lane);
	__u32 entries, returns;

	if (!lost)
		return 0;
	entries = lost->entries < 0xffff ? lost->entries : 0xffff;
	returns = lost->returns < 0xffff ? lost->returns : 0xffff;
	lost->entries -= entries;
	lost->returns -= returns;
	if (!lost->entries && !lost->returns)
		bpf_map_delete_elem(&pending_losses, &lane);
	return entries << 16 | returns;
}

#endif
