/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Events whose values are fetched as their spec says. */
#ifndef GENERIC_H
#define GENERIC_H

#include "actions.h"
#include "condition.h"
#include "executing.h"
#include "forked_stacks.h"
#include "nesting.h"
#include "off_cpu.h"
#include "relays.h"
#include "stack/send.h"
#include "texts.h"
#include "unread_texts.h"
#include "within.h"

static __always_inline void copy_texts(struct lbt_event *e, __u64 *values,
				       const __u32 chunk, const __u32 chunks,
				       const struct lbt_spec *spec)
{
	const __u32 many = N_VALUES;
	char *blob = (char *)(values + many) + sizeof(struct lbt_runner);

	for (int i = 0; i < chunks; i++) {
		__u64 slot = spec->text_slot[i];
		const struct lbt_fetch *f;
		__u64 value;

		if (slot >= many)
			break;
		/* the bound once more, for verifiers of 5.10 */
		barrier_var(slot);
		slot &= LBT_FETCHES - 1;
		f = &spec->fetch[slot];
		value = values[slot];
		if (e->faults >> slot & 1) {
			value = ~0ULL; /* there is no address */
		} else if (copy_any_text(f, values, i, blob + i * chunk, chunk, &value)) {
			e->faults |= 1 << slot;
			if (value >= 4096 && !f->optional) /* not a member of a null pointer */
				lose_text(e, f);
		} else if (!f->optional) {
			find_text(e, f);
		}
		values[slot] = value;
	}
	e->blob = chunk | spec->text_slots << 16;
}

/* All bits where a value is a text whose address could not be found, as there is none. */
static __always_inline __u64 unread_text(const struct lbt_spec *spec, __u32 faults, __u32 slot)
{
	return config.chunk_layouts ? -(__u64)(spec->text_slots >> slot & faults >> slot & 1) : 0;
}

#define SEND(chunk, chunks)                                                                        \
	do {                                                                                       \
		struct lbt_event *e = bpf_ringbuf_reserve(                                         \
			&ring, LBT_WHOLE + 8 * (many - LBT_VALUES) + (chunk) * (chunks), 0);       \
		__u64 *to;                                                                         \
		if (!e)                                                                            \
			goto full;                                                                 \
		write_header(e, at);                                                                       \
		to = (__u64 *)(e + 1) - LBT_VALUES;                                                \
		e->faults = faults;                                                                \
		for (int i = 0; i < LBT_FETCHES && i < many; i++)                             \
			to[i] = values[i] | ((chunks) ? 0 : unread_text(spec, faults, i));         \
		write_runner((struct lbt_runner *)(to + many), at);                                \
		if (many > LBT_VALUES)                                                             \
			e->kind |= (0x80 | spec->more) << 8;                                       \
		if (chunks)                                                                        \
			copy_texts(e, to, (chunk), (chunks), spec);                          \
		submit(e);                                                                         \
	} while (0)

static __noinline void send(struct hit *at, const struct lbt_spec *spec, const __u64 *values,
			    __u32 faults)
{
	const __u32 many = N_VALUES;
	__u8 layout = spec->chunk_layout;

	if (any_lost && has_losses(at))
		goto full; /* there was no room to report them */
	if (config.off_cpu && !(at->kind == LBT_OPEN && spec->action == LBT_KEEP) && !report_off_cpu(at))
		goto full;
	if (config.chunk_layouts >= 1 << LBT_LARGE_1 && layout >= LBT_LARGE_1 &&
	    are_short(spec, values, faults))
		layout = spec->short_layout;
	/* the verifier sees only the cases that some spec needs */
	if (!config.chunk_layouts || !(spec->text_slots & ~faults)) /* as in an error that is nil */
		SEND(0, 0);
	else if (config.chunk_layouts & 1 << LBT_SMALL_1 && layout == LBT_SMALL_1)
		SEND(LBT_SMALL_CHUNK, 1);
	else if (config.chunk_layouts & 1 << LBT_SMALL_2 && layout == LBT_SMALL_2)
		SEND(LBT_SMALL_CHUNK, 2);
	else if (config.chunk_layouts & 1 << LBT_SMALL_8 && layout == LBT_SMALL_8)
		SEND(LBT_SMALL_CHUNK, 8);
	else if (config.chunk_layouts & 1 << LBT_LARGE_1 && layout == LBT_LARGE_1)
		SEND(LBT_LARGE_CHUNK, 1);
	else if (config.chunk_layouts & 1 << LBT_LARGE_8)
		SEND(LBT_LARGE_CHUNK, 8);
	return;
full:
	ring_full(at);
}

/* Writes an event of the registers that a plain spec selects. */
static __noinline void write_selected(struct lbt_event *e, struct pt_regs *ctx, const struct hit *at,
				      const struct lbt_spec *spec)
{
	write_header(e, at);
#pragma clang loop unroll(full)
	for (int i = 0; i < LBT_VALUES; i++) {
		if (i >= spec->fetches)
			break;
		e->values[i] = select_register(ctx, spec->selection[i]);
	}
	write_runner((struct lbt_runner *)(e + 1), at);
}

#define SEND_SELECTED(chunks)                                                                      \
	do {                                                                                       \
		struct lbt_event *e = bpf_ringbuf_reserve(                                         \
			&ring, LBT_WHOLE + LBT_SMALL_CHUNK * (chunks), 0);                         \
		if (!e)                                                                            \
			goto full;                                                                 \
		write_selected(e, ctx, at, spec);                                                  \
		copy_texts(e, e->values, LBT_SMALL_CHUNK, (chunks), spec);                         \
		submit(e);                                                                         \
	} while (0)

/* The same with the short texts whose addresses they are. */
static __noinline void send_selected_texts(struct pt_regs *ctx, const struct hit *at,
					   const struct lbt_spec *spec)
{
	const __u8 layout = spec->chunk_layout;

	if (any_lost && !send_losses(at))
		goto full;
	if (config.chunk_layouts & 1 << LBT_SMALL_1 && layout == LBT_SMALL_1)
		SEND_SELECTED(1);
	else if (config.chunk_layouts & 1 << LBT_SMALL_2 && layout == LBT_SMALL_2)
		SEND_SELECTED(2);
	else if (config.chunk_layouts & 1 << LBT_SMALL_8)
		SEND_SELECTED(8);
	return;
full:
	ring_full(at);
}

const struct lbt_open_call no_call = {};

/* Whether the closing probe needs to know of the opening one. */
static __always_inline bool needs_opening(const struct lbt_spec *spec)
{
	return config.tells_open || (config.filtered && spec->filtered) || (config.keeping && spec->keeps[0]);
}

/*
 * Remembers a call, the register its return needs, and its values if it was not sent.
 * False where there is no room and the return would be left out: the call is lost.
 */
static __noinline bool remember(struct pt_regs *ctx, struct hit *at,
				const struct lbt_spec *spec, const __u64 *values, __u32 faults)
{
	struct lbt_call_key key = key_of(at, at->entry);
	struct lbt_open_call *call;

	/* here, as the event of the entry may be sent when the call has returned */
	if (config.off_cpu && !report_off_cpu(at)) {
		ring_full(at);
		return false;
	}
	/* filled in place: the stack has no room for it */
	if (bpf_map_update_elem(&open_calls, &key, &no_call, 0)) {
		if (!spec->filtered)
			return true;
		ring_full(at);
		return false;
	}
	call = bpf_map_lookup_elem(&open_calls, &key);
	if (!call)
		return false;
	call->time = at->time;
	call->spec = at->spec;
	call->probe = at->probe;
	if (config.compares_off_cpu)
		keep_off_cpu(at, call);
	for (int i = 0; i < LBT_KEPT; i++)
		if (config.keeping && spec->keeps[i])
			call->kept[i] = select_register(ctx, spec->keeps[i] - 1);
	if (config.deferred) {
		call->faults = faults;
		__builtin_memcpy(call->values, values, sizeof(call->values));
	}
	return true;
}

/* Does an action that aggregates, by the key of the hit, for which those that call it have no room. */
#define AGGREGATE(number, name)                                                                    \
	static __noinline void do_##name(const struct hit *at, const struct lbt_spec *spec,        \
					 const __u64 *values, __u32 faults)                        \
	{                                                                                          \
		struct lbt_simple_key key = { .probe = at->probe, .pid = at->pid };                \
		struct lbt_room *room;                                                             \
                                                                                                   \
		if (!config.rooms) {                                                               \
			name(&key, spec, values, faults);                                          \
			return;                                                                    \
		}                                                                                  \
		room = take_room(at, spec, values, faults);                                        \
		if (room)                                                                          \
			name((void *)&room->key, spec, values, faults);                            \
		leave_room(at);                                                                    \
	}
EACH_ACTION(AGGREGATE)
#undef AGGREGATE

/* Does the action of a spec. The verifier does not see actions that no spec has. */
static __always_inline void act(struct hit *at, const struct lbt_spec *spec,
				const __u64 *values, __u32 faults)
{
#define ACT(number, name)                                                                          \
	if (config.aggregating & 1 << number && spec->action == number) {                          \
		do_##name(at, spec, values, faults);                                               \
		return;                                                                            \
	}
	EACH_ACTION(ACT)
#undef ACT
	send(at, spec, values, faults);
}

#ifndef LBT_ATOMIC
/* Whether a function that is entered is one of the main program, or that has called it. */
static __noinline bool is_from_program(struct pt_regs *ctx, __u64 stack)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 start = BPF_CORE_READ(task, mm, start_code);
	__u64 size = BPF_CORE_READ(task, mm, end_code) - start, caller;

	if (INSTRUCTION_POINTER(ctx) - start < size)
		return true;
	caller = caller_of(ctx, stack);
	return caller - start < size;
}
#endif

#define LBT_LANDED (LBT_POINT | 0x100) /* nothing but sent: its program has little room */

/* False where conditions exclude the call, whose return need not be seen then. */
static __always_inline bool process_hit(struct pt_regs *ctx, __u64 record, struct hit *at,
				    const struct lbt_spec *spec, bool popped, const bool lands)
{
	const __u32 many = N_VALUES;
	__u64 values[LBT_SLOTS];
	struct lbt_open_call *call = NULL;
	__u32 faults = spec->opaque_zero, comparisons = 0;
	__u64 error, negative, inner, zero = spec->opaque_zero;
	bool left_out;

	if (!lands && needs_opening(spec)) {
		call = find_call(at);
		if (at->kind != LBT_OPEN) {
			if (call && call->spec == LBT_LEFT_OUT) {
				left_out = call->time == life_of(at);
				if (!config.nesting)
					forget_call(at);
				if (left_out)
					return false;
				call = NULL;
			}
			if (!call && spec->filtered && !may_be_inherited(at))
				return false;
		} else if (call) {
			/* it was left by an exception or longjmp */
			if (config.deferred && spec->action == LBT_KEEP &&
			    call->spec != LBT_LEFT_OUT)
				increment(LBT_LEFT_UNCOMPARED);
			if (!config.nesting) {
				forget_call(at);
			} else { /* what is around it is still asked for */
				call->spec = LBT_LEFT_OUT;
				call->time = life_of(at);
			}
			call = NULL;
		}
	}
	if (config.compares_off_cpu && at->kind == LBT_CLOSE && !spend_off_cpu(at, call))
		faults |= 1 << LBT_SLOT_BLOCKED | 1 << LBT_SLOT_RUNNABLE;
	zero |= zero << 32;
	barrier_var(zero);
	for (int i = 0; i < LBT_FETCHES; i++)
		values[i] = zero;
	values[LBT_SLOT_PID] = at->pid;
	values[LBT_SLOT_TID] = at->tid;
	values[LBT_SLOT_DURATION] = call ? at->time - call->time : 0;
#ifndef LBT_ATOMIC
	if (config.from_program && at->kind == LBT_OPEN)
		values[LBT_SLOT_DURATION] = is_from_program(ctx, at->stack);
#endif
	values[LBT_SLOT_KEPT] = config.keeping && call ? call->kept[0] : 0;
	if (config.keeping && call && spec->keeps[1]) {
		values[LBT_SLOT_PID] = call->kept[1];
		if (spec->keeps[2])
			values[LBT_SLOT_TID] = call->kept[2];
	}
	if (config.go && spec->go && !spec->keeps[0]) {
		values[LBT_SLOT_GOROUTINE] = at->goroutine;
	} else if (config.keeping && !call) {
		faults |= 1 << LBT_SLOT_KEPT;
		if (spec->keeps[1])
			faults |= 1 << LBT_SLOT_PID | 1 << LBT_SLOT_TID;
	}
	for (int i = 0; i < LBT_FETCHES && i < many; i++) {
		const struct lbt_fetch *f = &spec->fetch[i];

		if (i >= spec->fetches)
			break;
		error = fetch(f, ctx, at->stack, record, spec->opaque_zero, values, faults,
			      &values[i]);
		/* 1 of any error: where it sees the whole, the compiler makes a branch */
		negative = -error;
		barrier_var(negative);
		error = (error | negative) >> 63;
		barrier_var(error);
		faults |= error << i;
	}
	if (lands) {
		if (any_lost)
			send_losses(at);
		send(at, spec, values, faults);
		return true;
	}
	if (config.compared_texts && spec->conditions)
		comparisons = compare_texts(at->spec, spec, values);
	if (config.filtered && spec->conditions && !passes(spec, values, faults, comparisons, call)) {
		if (config.compares_off_cpu && faults >> LBT_SLOT_BLOCKED & 1)
			increment(LBT_UNSPLIT);
		if (config.compared_texts)
			lose_comparison(comparisons);
		nest(at, call, false);
		if (call)
			forget_call(at);
		if (config.rooms && spec->has_room)
			leave_room(at);
		return false;
	}
	inner = nest(at, call, true);
	if (config.times_inner)
		values[LBT_SLOT_INNER] = inner;
	if (at->kind == LBT_OPEN && needs_opening(spec) && !remember(ctx, at, spec, values, faults))
		return false;
	if (config.nesting && at->kind == LBT_OPEN)
		enter_call(at);
	if (config.deferred && at->kind == LBT_OPEN && spec->action == LBT_KEEP) {
		if (config.chunk_layouts)
			keep_texts(spec, values, faults);
		if (config.rooms)
			keep_room(at, spec, values, faults);
		return true;
	}
	/* here, because the stack does not suffice for calls within send() */
	if (any_lost)
		send_losses(at);
	if (config.deferred && call && !(config.aggregating && spec->action >= LBT_AGGREGATE)) {
		const struct lbt_spec *entry = bpf_map_lookup_elem(&specs, &call->spec);
		const __u64 now = at->time;
		const __u32 probe = at->probe;

		/* the stack has no room for a second place */
		at->time = call->time;
		at->probe = call->probe;
		at->kind = LBT_OPEN;
		if (entry && entry->action == LBT_KEEP) {
			send_stack(ctx, at, spec, popped);
			send(at, entry, call->values, call->faults);
		}
		at->time = now;
		at->probe = probe;
		at->kind = LBT_CLOSE;
	}
	if (call && !spec->jumps)
		forget_call(at);
	if (spec->action == LBT_SEND)
		send_stack(ctx, at, spec, popped);
	if (!lands && config.aggregating & 1 << LBT_DO_stacks && spec->action == LBT_DO_stacks)
		walk_for_stacks(ctx, at, spec, popped);
	act(at, spec, values, faults);
	return true;
}

#endif
