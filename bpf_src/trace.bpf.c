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

/* Events lost since the thread's last one, by tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
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

/* The calls whose return is filtered: entered, and not yet returned. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lbt_call_key);
	__type(value, struct lbt_open_call);
	__uint(max_entries, 65536);
	__uint(map_flags, LBT_NO_PREALLOC);
} open_calls SEC(".maps");

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

static __always_inline void ring_full(const struct place *at)
{
	const bool entry = at->kind == LBT_ENTRY;
	struct lbt_loss first = { .entries = entry, .returns = !entry, .pid = at->pid };
	__u32 tid = at->tid;
	struct lbt_loss *lost = bpf_map_lookup_elem(&pending_losses, &tid);

	count(entry ? LBT_RING_FULL_ENTRY : LBT_RING_FULL_RETURN);
	if (lost) {
		/* only its own thread changes them */
		lost->entries += entry;
		lost->returns += !entry;
	} else {
		bpf_map_update_elem(&pending_losses, &tid, &first, BPF_NOEXIST);
	}
	ADD(&any_lost, 1);
}

/* What an event can carry of them; the next one carries the rest. */
static __always_inline __u32 take_losses(__u32 tid)
{
	struct lbt_loss *lost = bpf_map_lookup_elem(&pending_losses, &tid);
	__u32 entries, returns;

	if (!lost)
		return 0;
	entries = lost->entries < 0xffff ? lost->entries : 0xffff;
	returns = lost->returns < 0xffff ? lost->returns : 0xffff;
	lost->entries -= entries;
	lost->returns -= returns;
	if (!lost->entries && !lost->returns)
		bpf_map_delete_elem(&pending_losses, &tid);
	return entries << 16 | returns;
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
static __always_inline void tell(struct lbt_runner *who)
{
	if (config.typed_task) {
		struct task_struct *task = bpf_get_current_task_btf();

		__builtin_memcpy(who->comm, task->comm, LBT_COMM);
		who->life = task->start_boottime + task->self_exec_id;
	} else {
		struct task_struct *task = (struct task_struct *)bpf_get_current_task();

		bpf_get_current_comm(who->comm, LBT_COMM);
		who->life = BPF_CORE_READ(task, start_boottime) + BPF_CORE_READ(task, self_exec_id);
	}
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

/*
 * Keeps the compiler from merging what differs in the registers read only: the
 * verifier takes no computed offset into the context.
 */
#define APART(ctx, number) asm volatile("" : "+r"(ctx) : "i"(number))

static __always_inline void send_short(struct pt_regs *ctx, const struct place *at)
{
	struct lbt_event *e;

	if (at->kind == LBT_ENTRY) {
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT_ENTRY, 0);
		if (!e)
			goto full;
		APART(ctx, 1);
		e->values[0] = ARGUMENT0(ctx);
		e->values[1] = ARGUMENT1(ctx);
		tell((struct lbt_runner *)&e->values[LBT_SHORT_VALUES]);
	} else {
		e = bpf_ringbuf_reserve(&ring, LBT_SHORT_RETURN, 0);
		if (!e)
			goto full;
		APART(ctx, 2);
		e->values[0] = RESULT0(ctx);
		e->values[1] = RESULT1(ctx);
	}
	head(e, at);
	submit(e);
	return;
full:
	ring_full(at);
}

static __always_inline void send_plain(struct pt_regs *ctx, const struct place *at)
{
	struct lbt_event *e = bpf_ringbuf_reserve(&ring, LBT_WHOLE, 0);

	if (!e) {
		ring_full(at);
		return;
	}
	head(e, at);
	e->values[0] = ARGUMENT0(ctx);
	e->values[1] = ARGUMENT1(ctx);
	e->values[2] = ARGUMENT2(ctx);
	e->values[3] = ARGUMENT3(ctx);
	e->values[4] = ARGUMENT4(ctx);
	e->values[5] = ARGUMENT5(ctx);
	tell((struct lbt_runner *)(e + 1));
	submit(e);
}

/*
 * What follows is written for the verifier too. It walks every path through
 * the loops that differs from one walked before in anything it knows: so a
 * branch that can be arithmetic is, what begins as zero does so unknown to it,
 * and a text's place behind the event does not depend on the texts before it.
 */

/* Reads memory of the process; a page that is not there yet only if it may wait. */
static __always_inline long read_user(void *to, __u32 size, __u64 from)
{
	long error = bpf_probe_read_user(to, size, (const void *)from);

	if (error && config.may_fault)
		error = bpf_copy_from_user(to, size, (const void *)from);
	return error;
}

/* The values of a probe that there is room for, in a load: the verifier knows their number. */
#define MANY (config.wide ? LBT_FETCHES : LBT_VALUES)

/* The address or value a fetch leads to, before its last step. */
static __always_inline long walk(const struct lbt_fetch *f, struct pt_regs *ctx, __u64 frame,
				 __u64 nothing, __u64 *value)
{
	__u64 v = nothing;
	long error = nothing;

	if (f->base == LBT_REGISTER)
		bpf_probe_read_kernel(&v, sizeof(v), (__u64 *)ctx + (f->reg & 63));
	else if (f->base == LBT_STACK)
		v = frame;
	v += f->offset;
	for (int i = 0; i < LBT_DEREFS; i++) {
		if (i >= f->derefs)
			break;
		error |= read_user(&v, sizeof(v), v);
		v += f->deref[i];
	}
	*value = v;
	return error;
}

static __always_inline long fetch(const struct lbt_fetch *f, struct pt_regs *ctx, __u64 frame,
				  __u64 nothing, __u64 *value)
{
	long error = walk(f, ctx, frame, nothing, value);

	if (f->read == LBT_INTEGER) {
		__u32 size = f->size;
		__u64 v = 0;

		if (size > sizeof(v))
			size = sizeof(v);
		error |= read_user(&v, size, *value);
		*value = v;
	}
	*value <<= f->left & 63;
	*value = f->is_signed ? (__u64)((__s64)*value >> (f->right & 63)) : *value >> (f->right & 63);
	return error;
}

/*
 * A value by its slot. The stack is read at known places only, and without a
 * branch, from which the verifier would learn the slot.
 */
static __noinline __u64 select(const __u64 *values, __u32 wanted)
{
	__u64 v = 0;

	for (int slot = 0; slot < LBT_SLOTS; slot++) {
		__u64 distance = wanted ^ slot;

		asm volatile("" : "+r"(distance));
		v |= values[slot] & (__u64)((__s64)(distance - 1) >> 63);
	}
	return v;
}

/* Whether the text a condition is about is (0) or is not (1) the one it names; 2: unreadable. */
static __noinline __u32 compare_text(const struct lbt_condition *c, const struct lbt_spec *spec,
				    const __u64 *values)
{
	const struct lbt_text *wanted = &spec->text[(c->text - 1) & (LBT_TEXTS - 1)];
	const struct lbt_fetch *f = &spec->fetch[c->slot & (LBT_FETCHES - 1)];
	__u64 have[LBT_TEXT_WORDS + 1] = {}, different = spec->nothing;
	__u32 length = c->length;
	long error = spec->nothing;

	if (length > LBT_TEXT_LIMIT)
		length = LBT_TEXT_LIMIT;
	if (c->slot == LBT_SLOT_COMM) {
		bpf_get_current_comm((char *)have, LBT_COMM);
	} else {
		__u64 from = select(values, c->slot);

		if (f->read == LBT_STRING) {
			/* one more than is wanted, and the NUL */
			error = bpf_probe_read_user_str(have, length + 2, (const void *)from);
			if (error < 0 && config.may_fault) {
				bpf_copy_from_user(have, 1, (const void *)from);
				error = bpf_probe_read_user_str(have, length + 2, (const void *)from);
			}
			error = error < 0;
		} else {
			__u64 true_length = f->limit;

			if (f->length_from < LBT_FETCHES)
				true_length = select(values, f->length_from);
			if (true_length < length || (true_length > length && !c->prefix))
				return 1;
			if (length)
				error = read_user(have, length, from);
		}
	}
	for (int i = 0; i < LBT_TEXT_WORDS; i++)
		different |= (have[i] ^ wanted->words[i]) & wanted->masks[i];
	return error ? 2 : different != 0;
}

/* Every group needs one comparison that holds. */
static __noinline bool passes(const struct lbt_spec *spec, const __u64 *values, __u32 faults)
{
	__u32 failing = spec->nothing, holding = spec->nothing;

	for (int i = 0; i < LBT_CONDITIONS; i++) {
		const struct lbt_condition *c = &spec->condition[i];
		__u64 v, operand = c->operand;
		__u32 relation, group;

		if (i >= spec->conditions)
			break;
		if (config.compared_texts && c->text)
			v = compare_text(c, spec, values);
		else
			v = select(values, c->slot);
		/* turns a signed comparison into an unsigned one */
		v ^= (__u64)c->is_signed << 63;
		operand ^= (__u64)c->is_signed << 63;
		relation = v == operand ? LBT_EQUAL : v < operand ? LBT_LESS : LBT_GREATER;
		if (c->text && v == 2)
			relation = 0;
		group = 1 << (c->group & 31);
		if (c->relations & relation && !(faults >> (c->slot & 31) & 1))
			holding |= group;
		else
			failing |= group;
	}
	return !(failing & ~holding);
}

/*
 * The length of the string copied, or an error. The copy takes one byte more,
 * the NUL, to tell a full string from a cut one. Some kernels (6.1) say 0,
 * not 1, of an empty string.
 */
static __always_inline long read_string(char *to, __u32 size, __u64 from)
{
	long got = bpf_probe_read_user_str(to, size + 1, (const void *)from);

	return got > 0 ? got - 1 : got;
}

/* Copies a string or bytes to its chunk; tells how many, and the true length. */
static __always_inline long copy_text(const struct lbt_fetch *f, const __u64 *values,
				      char *to, const __u32 chunk, __u64 *value)
{
	__u64 from = *value;
	const __u32 many = MANY;
	__u32 size = f->limit, slot = f->length_from;
	__u64 length;
	long got;

	if (size > chunk - 1)
		size = chunk - 1;
	if (f->read == LBT_STRING) {
		got = read_string(to, size, from);
		if (got < 0 && config.may_fault) {
			/* its pages may not be there yet: it lies on two at the most */
			bpf_copy_from_user(to, 1, (const void *)from);
			bpf_copy_from_user(to, 1, (const void *)(from + size));
			got = read_string(to, size, from);
		}
		length = got == size ? 0xffffffff : (__u64)got;
	} else {
		length = slot < many ? values[slot] * f->scale : size;
		if (length < size)
			size = length;
		/* verifiers of kernels to 5.10 lose the bound in the comparison, and
		 * compilers leave out what they see no need for */
		barrier_var(size);
		size &= chunk - 1;
		got = read_user(to, size, from) ? -1 : (long)size;
		if (length > 0xffffffff)
			length = 0xffffffff;
	}
	if (got < 0)
		return got;
	*value = length << 32 | (__u32)got;
	return 0;
}

static __always_inline void copy_texts(struct lbt_event *e, __u64 *values,
				       const __u32 chunk, const __u32 chunks,
				       const struct lbt_spec *spec)
{
	const __u32 many = MANY;
	char *blob = (char *)(values + many) + sizeof(struct lbt_runner);

	for (int i = 0; i < LBT_FETCHES && i < many; i++) {
		const struct lbt_fetch *f = &spec->fetch[i];
		__u32 place = f->chunk;
		__u64 value = values[i];

		if (i >= spec->fetches)
			break;
		if (f->read < LBT_STRING || place >= chunks)
			continue;
		if (e->faults >> i & 1) {
			value = ~0ULL; /* there is no address */
		} else if (copy_text(f, values, blob + place * chunk, chunk, &value)) {
			e->faults |= 1 << i;
			if (value >= 4096 && !f->optional) /* not a member of nothing */
				count(LBT_STRING_FAULT);
		}
		values[i] = value;
	}
	e->blob = chunk | spec->text_slots << 16;
}

#define SEND(chunk, chunks)                                                                        \
	do {                                                                                       \
		struct lbt_event *e = bpf_ringbuf_reserve(                                         \
			&ring, LBT_WHOLE + 8 * (many - LBT_VALUES) + (chunk) * (chunks), 0);       \
		__u64 *to;                                                                         \
		if (!e)                                                                            \
			goto full;                                                                 \
		head(e, at);                                                                       \
		to = (__u64 *)(e + 1) - LBT_VALUES;                                                \
		e->faults = faults;                                                                \
		for (int i = 0; i < LBT_FETCHES && i < many; i++)                             \
			to[i] = values[i];                                                         \
		tell((struct lbt_runner *)(to + many));                                            \
		if (many > LBT_VALUES)                                                             \
			e->kind |= (0x80 | spec->more) << 8;                                       \
		if (chunks)                                                                        \
			copy_texts(e, to, (chunk), (chunks), spec);                          \
		submit(e);                                                                         \
	} while (0)

static __noinline void send(const struct place *at, const struct lbt_spec *spec,
				 const __u64 *values, __u32 faults)
{
	const __u32 many = MANY;

	/* only the cases that some spec needs are there for the verifier */
	if (!config.texts || !spec->texts)
		SEND(0, 0);
	else if (config.texts & 1 << LBT_SMALL_1 && spec->texts == LBT_SMALL_1)
		SEND(LBT_SMALL_CHUNK, 1);
	else if (config.texts & 1 << LBT_SMALL_2 && spec->texts == LBT_SMALL_2)
		SEND(LBT_SMALL_CHUNK, 2);
	else if (config.texts & 1 << LBT_SMALL_8 && spec->texts == LBT_SMALL_8)
		SEND(LBT_SMALL_CHUNK, 8);
	else if (config.texts & 1 << LBT_LARGE_1 && spec->texts == LBT_LARGE_1)
		SEND(LBT_LARGE_CHUNK, 1);
	else if (config.texts & 1 << LBT_LARGE_8)
		SEND(LBT_LARGE_CHUNK, 8);
	return;
full:
	ring_full(at);
}

const struct lbt_open_call no_call = {};

/* Remembers a call whose return is filtered, and its values if it was not sent. */
static __noinline void remember(const struct place *at, const struct lbt_spec *spec,
				     const __u64 *values, __u32 faults)
{
	struct lbt_call_key key = { at->frame, at->goroutine ? at->goroutine : at->tid };
	struct lbt_open_call *call;

	/* filled in place: the stack has no room for it */
	if (bpf_map_update_elem(&open_calls, &key, &no_call, 0)) {
		ring_full(at);
		return;
	}
	call = bpf_map_lookup_elem(&open_calls, &key);
	if (!call)
		return;
	call->time = at->time;
	call->spec = at->spec;
	call->probe = at->probe;
	if (config.deferred) {
		call->faults = faults;
		__builtin_memcpy(call->values, values, sizeof(call->values));
	}
}

/* False where the call is not wanted: its return need not be seen. */
static __always_inline bool generic(struct pt_regs *ctx, const struct place *at,
				    const struct lbt_spec *spec)
{
	struct lbt_call_key key = { at->frame, at->goroutine ? at->goroutine : at->tid };
	const __u32 many = MANY;
	__u64 values[LBT_SLOTS];
	struct lbt_open_call *call = NULL;
	__u32 faults = spec->nothing;

	if (config.filtered && at->kind != LBT_ENTRY && spec->filtered) {
		call = bpf_map_lookup_elem(&open_calls, &key);
		if (!call)
			return false;
	}
	for (int i = 0; i < LBT_FETCHES; i++)
		values[i] = spec->nothing;
	values[LBT_SLOT_PID] = at->pid;
	values[LBT_SLOT_TID] = at->tid;
	values[LBT_SLOT_DURATION] = call ? at->time - call->time : 0;
	for (int i = 0; i < LBT_FETCHES && i < many; i++) {
		const struct lbt_fetch *f = &spec->fetch[i];

		if (i >= spec->fetches)
			break;
		faults |= (fetch(f, ctx, at->stack, spec->nothing, &values[i]) != 0) << i;
	}
	if (config.filtered && spec->conditions && !passes(spec, values, faults)) {
		if (call)
			bpf_map_delete_elem(&open_calls, &key);
		return false;
	}
	if (config.filtered && at->kind == LBT_ENTRY && spec->filtered)
		remember(at, spec, values, faults);
	if (config.deferred && at->kind == LBT_ENTRY && spec->deferred)
		return true;
	if (config.deferred && call) {
		const struct lbt_spec *entry = bpf_map_lookup_elem(&specs, &call->spec);
		struct place then = *at;

		then.time = call->time;
		then.probe = call->probe;
		then.kind = LBT_ENTRY;
		if (entry && entry->deferred)
			send(&then, entry, call->values, call->faults);
	}
	if (call)
		bpf_map_delete_elem(&open_calls, &key);
	send(at, spec, values, faults);
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
 * From 6.13 on the JIT gives such programs a stack per CPU, as if nothing could
 * run them while they run. But a program of a uprobe is preempted, and sleeps,
 * and another task then runs it on the same stack: records were never
 * submitted, or with another's values. Programs that contain a tail call keep
 * the kernel's stack (check_max_stack_depth() in kernel/bpf/verifier.c); this
 * one is never reached, and the verifier removes it.
 */
#define KEEP_TASK_STACK()                                                                          \
	do {                                                                                       \
		if (config.never)                                                                  \
			asm volatile("call 12" ::: "r0", "r1", "r2", "r3", "r4", "r5", "memory");  \
	} while (0)

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
		.spec = key,
		.kind = kind,
	};

	KEEP_TASK_STACK();
	if (!identify(&at))
		return false;
	spec = bpf_map_lookup_elem(&specs, &key);
	if (!spec)
		return false;
	if (spec->unless & FLAGS(ctx))
		return false;
	at.frame += popped ? -LBT_RETURN_SLOT : spec->sp_delta;
	at.stack = at.frame;
	if (config.go_g && !spec->foreign && !in_goroutine(ctx, &at))
		at.goroutine = 0;
	if (config.generic && !spec->plain)
		return generic(ctx, &at, spec);
	if (kind == LBT_RETURN || spec->fetches <= LBT_SHORT_VALUES)
		send_short(ctx, &at);
	else
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

/* From 7.0 on it takes the context; libbpf resolves the one that fits. */
extern bool bpf_session_is_return(void) __ksym __weak;
extern bool bpf_session_is_return___with_context(void *ctx) __ksym __weak;

SEC("uprobe")
int session(struct pt_regs *ctx)
{
	bool returns;

	if (bpf_ksym_exists(bpf_session_is_return___with_context))
		returns = bpf_session_is_return___with_context(ctx);
	else
		returns = bpf_session_is_return();
	if (returns) {
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
