// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/*
 * Sends an event for each entry and return of the traced functions.
 *
 * Which program is attached where is user space's choice: entered and returned
 * as a pair (plain or multi), or session for both. What an event holds is in
 * the specs; nothing is generated at run time.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "lbtrace.h"
#include "registers.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SMALL_ROOM 256	/* of a blob */
#define LARGE_ROOM 8192
#define LONG_TRUE 0xffffffff00000000ULL

const volatile struct lbt_config config = {};

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

/* Events lost since the thread's last one, by tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 16384);
} pending_losses SEC(".maps");

/* Processes followed beside root, by tgid in the initial namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 16384);
} followed SEC(".maps");

/* Where and when a probe was hit. */
struct place {
	__u64 time;
	__u64 frame;
	__u64 goroutine;
	__u32 probe;
	__u32 pid;
	__u32 tid;
	__u16 kind;
};

static __always_inline void count(__u32 counter)
{
	__u64 *slot = bpf_map_lookup_elem(&counters, &counter);

	if (slot)
		__sync_fetch_and_add(slot, 1);
}

static __noinline void note_loss(__u32 counter, __u32 tid)
{
	__u32 one = 1, *lost = bpf_map_lookup_elem(&pending_losses, &tid);

	count(counter);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	else
		bpf_map_update_elem(&pending_losses, &tid, &one, BPF_NOEXIST);
	__sync_fetch_and_add(&any_lost, 1);
}

static __always_inline void ring_full(const struct place *at)
{
	note_loss(at->kind == LBT_ENTRY ? LBT_RING_FULL_ENTRY : LBT_RING_FULL_RETURN, at->tid);
}

static __noinline __u32 take_losses(__u32 tid)
{
	__u32 *lost = bpf_map_lookup_elem(&pending_losses, &tid), n;

	if (!lost)
		return 0;
	n = *lost;
	bpf_map_delete_elem(&pending_losses, &tid);
	return n;
}

/* False for a process that is not traced. */
static __always_inline bool identify(struct place *who)
{
	__u32 tgid;

	if (config.typed_task) {
		struct task_struct *task = bpf_get_current_task_btf();

		who->pid = task->tgid;
		who->tid = task->pid;
	} else {
		__u64 ids = bpf_get_current_pid_tgid();

		who->pid = ids >> 32;
		who->tid = ids;
	}
	tgid = who->pid;
	if (config.pidns_inode) {
		struct bpf_pidns_info ns;

		if (!bpf_get_ns_current_pid_tgid(config.pidns_device, config.pidns_inode, &ns, sizeof(ns))) {
			who->pid = ns.tgid;
			who->tid = ns.pid;
		} else if (config.root) {
			return false; /* outside the namespace */
		}
	}
	if (!config.root || who->pid == config.root)
		return true;
	return config.follow && bpf_map_lookup_elem(&followed, &tgid);
}

/* Reading the task costs a tenth of asking a helper. */
static __always_inline void name(struct lbt_event *e)
{
	if (config.typed_task)
		__builtin_memcpy(e->comm, bpf_get_current_task_btf()->comm, sizeof(e->comm));
	else
		bpf_get_current_comm(e->comm, sizeof(e->comm));
}

static __always_inline void head(struct lbt_event *e, const struct place *at)
{
	e->time = at->time;
	e->frame = at->frame;
	e->goroutine = at->goroutine;
	e->probe = at->probe;
	e->pid = at->pid;
	e->tid = at->tid;
	e->kind = at->kind;
	e->faults = 0;
	e->lost = any_lost ? take_losses(at->tid) : 0;
	e->blob = 0;
	if (at->kind == LBT_ENTRY)
		name(e);
}

/*
 * A wake-up costs more than all the rest of an event: the reader polls, and is
 * woken only when the ring fills, by those that cross the mark.
 */
static __always_inline void submit(struct lbt_event *e)
{
	__u64 ahead = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) - config.wakeup_bytes;

	bpf_ringbuf_submit(e, ahead < 1024 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void send_plain(struct pt_regs *ctx, const struct place *at)
{
	struct lbt_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

	if (!e) {
		ring_full(at);
		return;
	}
	head(e, at);
	if (at->kind == LBT_ENTRY) {
		e->values[0] = ARGUMENT0(ctx);
		e->values[1] = ARGUMENT1(ctx);
		e->values[2] = ARGUMENT2(ctx);
		e->values[3] = ARGUMENT3(ctx);
		e->values[4] = ARGUMENT4(ctx);
		e->values[5] = ARGUMENT5(ctx);
	} else {
		e->values[0] = RESULT0(ctx);
		e->values[1] = RESULT1(ctx);
		e->values[2] = 0;
		e->values[3] = 0;
		e->values[4] = 0;
		e->values[5] = 0;
	}
	submit(e);
}

static __always_inline long read_integer(__u64 *value, __u8 size, bool is_signed, __u64 address)
{
	const void *from = (const void *)address;
	__u64 v = 0;
	long error;

	switch (size) {
	case 1: error = bpf_probe_read_user(&v, 1, from); break;
	case 2: error = bpf_probe_read_user(&v, 2, from); break;
	case 4: error = bpf_probe_read_user(&v, 4, from); break;
	default: error = bpf_probe_read_user(&v, 8, from);
	}
	if (is_signed) {
		switch (size) {
		case 1: v = (__s64)(__s8)v; break;
		case 2: v = (__s64)(__s16)v; break;
		case 4: v = (__s64)(__s32)v; break;
		}
	}
	*value = v;
	return error;
}

/* The address or value a fetch leads to, before its last step. */
static __always_inline long walk(const struct lbt_fetch *f, struct pt_regs *ctx, __u64 frame,
				 __u64 *value)
{
	__u64 v = 0;
	long error = 0;

	if (f->base == LBT_REGISTER)
		v = read_register(ctx, f->reg);
	else if (f->base == LBT_STACK)
		v = frame;
	v += f->offset;
	for (int i = 0; i < LBT_DEREFS; i++) {
		if (i >= f->derefs || error)
			break;
		error = bpf_probe_read_user(&v, sizeof(v), (const void *)v);
		v += f->deref[i];
	}
	*value = v;
	return error;
}

static __always_inline bool holds(const struct lbt_condition *c, __u64 v)
{
	__s64 s = v, operand = c->operand;

	switch (c->op) {
	case LBT_EQ: return v == c->operand;
	case LBT_NE: return v != c->operand;
	case LBT_LT: return c->is_signed ? s < operand : v < c->operand;
	case LBT_LE: return c->is_signed ? s <= operand : v <= c->operand;
	case LBT_GT: return c->is_signed ? s > operand : v > c->operand;
	default: return c->is_signed ? s >= operand : v >= c->operand;
	}
}

/* Every group needs one comparison that holds. */
static __always_inline bool passes(const struct lbt_spec *spec, const __u64 *values, __u16 faults)
{
	__u8 group = 0;
	bool good = true;

	for (int i = 0; i < LBT_CONDITIONS; i++) {
		const struct lbt_condition *c = &spec->condition[i];
		__u32 slot = c->slot;

		if (i >= spec->conditions)
			break;
		if (i == 0 || c->group != group) {
			if (!good)
				return false;
			good = false;
			group = c->group;
		}
		if (slot < LBT_VALUES && !(faults >> slot & 1) && holds(c, values[slot]))
			good = true;
	}
	return good;
}

struct gathered {
	__u64 values[LBT_VALUES];
	__u16 faults;
};

/*
 * Appends the strings and bytes of a spec to a record. Each begins in the
 * first half of the room and takes at most the other half, which is how the
 * verifier knows that it fits.
 */
static __always_inline __u32 append(char *blob, const __u32 room, const struct lbt_spec *spec,
				    struct gathered *g)
{
	__u32 used = 0;

	for (int i = 0; i < LBT_VALUES; i++) {
		const struct lbt_fetch *f = &spec->fetch[i];
		const void *from = (const void *)g->values[i];
		__u32 size = f->limit, slot = f->length_from;
		__u64 length = 0;
		long got;

		if (i >= spec->fetches)
			break;
		if (f->read < LBT_STRING || g->faults >> i & 1)
			continue;
		if (used >= room / 2) {
			g->values[i] = LONG_TRUE;
			g->faults |= 1 << i;
			count(LBT_BLOB_TOO_LONG);
			continue;
		}
		if (size > room / 2)
			size = room / 2;
		if (f->read == LBT_STRING) {
			/* room for the NUL, to tell a full string from a cut one */
			if (size >= room / 2)
				size = room / 2 - 1;
			got = bpf_probe_read_user_str(blob + used, size + 1, from);
			if (got > 0)
				got--;
			length = got == size ? 0xffffffff : (__u64)got;
		} else {
			length = slot < LBT_VALUES ? g->values[slot] : size;
			if (length < size)
				size = length;
			got = size && bpf_probe_read_user(blob + used, size, from) ? -1 : (long)size;
		}
		if (got < 0) {
			g->values[i] = 0;
			g->faults |= 1 << i;
			count(LBT_STRING_FAULT);
			continue;
		}
		if (length > 0xffffffff)
			length = 0xffffffff;
		g->values[i] = length << 32 | (__u32)got;
		used += (__u32)got;
		if (used > room)
			used = room;
	}
	return used;
}

#define SEND_BLOB(room)                                                                            \
	do {                                                                                       \
		struct lbt_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e) + (room), 0);          \
		if (!e)                                                                            \
			goto full;                                                                 \
		head(e, at);                                                                       \
		e->blob = append((char *)(e + 1), (room), spec, &g);                               \
		e->faults = g.faults;                                                              \
		__builtin_memcpy(e->values, g.values, sizeof(g.values));                           \
		submit(e);                                                                         \
	} while (0)

/* False where the conditions do not hold. */
static __always_inline bool send(struct pt_regs *ctx, const struct place *at,
				 const struct lbt_spec *spec)
{
	struct gathered g = {};
	bool strings = false;

	for (int i = 0; i < LBT_VALUES; i++) {
		const struct lbt_fetch *f = &spec->fetch[i];
		long error;

		if (i >= spec->fetches)
			break;
		error = walk(f, ctx, at->frame, &g.values[i]);
		if (!error && f->read == LBT_INTEGER)
			error = read_integer(&g.values[i], f->size, f->is_signed, g.values[i]);
		if (error)
			g.faults |= 1 << i;
		strings |= f->read >= LBT_STRING;
	}
	if (!passes(spec, g.values, g.faults))
		return false;
	if (config.blobs && strings) {
		if (spec->large)
			SEND_BLOB(LARGE_ROOM);
		else
			SEND_BLOB(SMALL_ROOM);
	} else {
		struct lbt_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

		if (!e)
			goto full;
		head(e, at);
		e->faults = g.faults;
		__builtin_memcpy(e->values, g.values, sizeof(g.values));
		submit(e);
	}
	return true;
full:
	ring_full(at);
	return true;
}

static __always_inline __u64 cookie_of(void *ctx)
{
	return config.use_only_cookie ? config.only_cookie : bpf_get_attach_cookie(ctx);
}

/*
 * The goroutine that runs, and the frame as its distance from the top of the
 * goroutine's stack: Go moves stacks. The distance is negative, so that a
 * nested call has the lower frame as everywhere. False where g is unreadable.
 */
static __always_inline bool in_goroutine(struct pt_regs *ctx, struct place *at)
{
	__u64 g = 0, high;

	if (config.go_g == LBT_GO_REGISTER)
		g = GO_REGISTER(ctx);
	else if (bpf_probe_read_user(&g, sizeof(g), (void *)(thread_pointer() - sizeof(g))))
		return false;
	if (bpf_probe_read_user(&at->goroutine, sizeof(__u64), (void *)(g + config.go_goid)) ||
	    bpf_probe_read_user(&high, sizeof(high), (void *)(g + config.go_stack_high)))
		return false;
	at->frame -= high;
	return true;
}

/*
 * False where the call is not traced. A uretprobe's return has popped the
 * return address already; a probe on a function's ret has not.
 */
static __always_inline bool hit(struct pt_regs *ctx, __u16 kind, bool popped)
{
	__u64 cookie = cookie_of(ctx);
	__u32 key = kind == LBT_ENTRY ? LBT_COOKIE_ENTRY(cookie) : LBT_COOKIE_RETURN(cookie);
	const struct lbt_spec *spec;
	struct place at = {
		.time = bpf_ktime_get_ns(),
		.frame = STACK_POINTER(ctx),
		.probe = LBT_COOKIE_PROBE(cookie),
		.kind = kind,
	};

	if (!identify(&at))
		return false;
	spec = bpf_map_lookup_elem(&specs, &key);
	if (!spec)
		return false;
	at.frame += popped ? -LBT_RETURN_SLOT : spec->sp_delta;
	if (config.go_g && !in_goroutine(ctx, &at))
		at.goroutine = 0;
	if (config.generic && !spec->plain)
		return send(ctx, &at, spec);
	send_plain(ctx, &at);
	return true;
}

SEC("uprobe")
int entered(struct pt_regs *ctx)
{
	hit(ctx, LBT_ENTRY, false);
	return 0;
}

SEC("uretprobe")
int returned(struct pt_regs *ctx)
{
	hit(ctx, LBT_RETURN, true);
	return 0;
}

/* Stands on the instruction that returns. */
SEC("uprobe")
int left(struct pt_regs *ctx)
{
	hit(ctx, LBT_RETURN, false);
	return 0;
}

extern bool bpf_session_is_return(void) __ksym __weak;

SEC("uprobe")
int session(struct pt_regs *ctx)
{
	if (bpf_session_is_return()) {
		hit(ctx, LBT_RETURN, true);
		return 0;
	}
	return !hit(ctx, LBT_ENTRY, false); /* 1: no return is wanted */
}

/* A followed process forks: its child is followed before it runs. */
SEC("raw_tp/sched_process_fork")
int forked(__u64 *args)
{
	struct task_struct *child = (struct task_struct *)args[1];
	__u32 pid = BPF_CORE_READ(child, pid), tgid = BPF_CORE_READ(child, tgid);
	struct place parent;
	__u8 yes = 1;

	if (pid == tgid && identify(&parent))
		bpf_map_update_elem(&followed, &tgid, &yes, 0);
	return 0;
}

/* Its last thread ends: the pid may come back as another process. */
SEC("raw_tp/sched_process_exit")
int exited(__u64 *args)
{
	struct task_struct *task = (struct task_struct *)args[0];
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!BPF_CORE_READ(task, signal, live.counter))
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}
