/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* What the programs share: constants, maps, the counts of losses. */
#ifndef STATE_H
#define STATE_H

#define LBT_NO_PREALLOC 1 /* BPF_F_NO_PREALLOC, include/uapi/linux/bpf.h */

/*
 * What lies behind a pointer of the task is read by global functions, which the verifier visits once
 * for each program: to judge such a load it searches all types of the kernel (1 ms). Kernels before
 * 5.17 would visit them even where the task's type is not known.
 */
#ifdef LBT_EARLY
#define LBT_VISITED_ONCE static __always_inline
#else
#define LBT_VISITED_ONCE __noinline
#endif

const volatile struct lbt_config config SEC(".rodata.config") = {};

/* Puts the layout of an event into the object's types, for a test that compares it. */
const struct lbt_event *event_layout = 0;

__u64 any_lost = 0; /* nothing has been lost while this is 0 */
__u64 any_unread = 0; /* nor does a thread have unreadable texts of a system call while this is */

/* With how much data in the ring its reader is to be woken; 0 while it is awake. */
volatile __u64 wake_at SEC(".bss.wake_at") = 0;

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

/* Processes followed besides root, by their number in the reader's namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 65536);
	__uint(map_flags, LBT_NO_PREALLOC);
} followed SEC(".maps");

/* Entered and not yet returned: the calls whose return is filtered, or needs what was there. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lbt_call_key);
	__type(value, struct lbt_open_call);
	__uint(max_entries, 65536);
	__uint(map_flags, LBT_NO_PREALLOC);
} open_calls SEC(".maps");

/* Room for bytes that are read and not kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, char[LBT_PIECE]);
	__uint(max_entries, 1);
} scratch SEC(".maps");

/* Where and when a probe was hit. */
struct hit {
	__u64 time;
	__u64 stack;	/* pointer at function entry */
	__u64 frame;
	__u64 goroutine;
	__u64 other;	/* the stack, where that is not the thread's own: other_stack() */
	__u32 probe;
	__u32 pid;
	__u32 tid;
	__u32 spec;
	__u16 kind;
	__u16 bits;	/* besides the kind */
	__u32 inside;	/* the tid in a pid namespace inside the reader's, or 0 */
	__u32 entry;	/* the probe that opens the call */
};

/*
 * Relaxed: otherwise newer clangs write an instruction that also fetches, which
 * kernels before 5.12 refuse.
 */
#define ADD(target, number) __atomic_fetch_add(target, number, __ATOMIC_RELAXED)

static __always_inline void increment(__u32 counter)
{
	__u64 *slot = bpf_map_lookup_elem(&counters, &counter);

	if (slot)
		ADD(slot, 1);
}

static __always_inline __u64 lane_of(const struct hit *at)
{
	return at->goroutine ? (__u64)at->pid << LBT_LANE_BITS | at->goroutine : at->tid;
}

const struct lbt_loss no_losses = {};

static __always_inline void ring_full(const struct hit *at)
{
	const __u32 kind = at->kind & (LBT_KINDS - 1);
	__u64 lane = lane_of(at);
	struct lbt_loss *lost = bpf_map_lookup_elem(&pending_losses, &lane);

	increment(LBT_RING_FULL + kind);
	if (!lost) {
		/* filled in place: the stack has no room for it */
		bpf_map_update_elem(&pending_losses, &lane, &no_losses, BPF_NOEXIST);
		lost = bpf_map_lookup_elem(&pending_losses, &lane);
		if (lost) {
			lost->pid = at->pid;
			lost->tid = at->tid;
		}
	}
	if (lost)
		lost->lost[kind] += 1; /* only its own lane changes them */
	ADD(&any_lost, 1);
}

#endif
