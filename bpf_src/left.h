/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Calls that wait for a condition on their return, and are left by an exception instead: where that
 * lands, their entries are sent, the outermost first, before the landing.
 */
#ifndef LEFT_H
#define LEFT_H

#include "hit.h"

#ifdef LBT_EARLY
#define LBT_MOST_LEFT 8 /* there is no bpf_loop() */
#else
#define LBT_MOST_LEFT 1024
#endif

struct leaving {
	struct hit at;
	__u64 landing;		   /* the frame */
	__u64 born;		   /* when the thread, or its process, started */
	struct lbt_innermost call; /* the next to look at, 0: none */
	struct lbt_innermost last; /* the one before it */
};

static __always_inline struct lbt_open_call *call_of(struct leaving *l, struct lbt_call_key *key)
{
	*key = key_of(&l->at, l->call.probe);
	key->frame = l->call.frame;
	return bpf_map_lookup_elem(&open_calls, key);
}

/* Turns one link from a call to the one around it; 1 at the end of those that were left. */
static long turn(__u64 number, struct leaving *l)
{
	struct lbt_open_call *call;
	struct lbt_call_key key;
	struct lbt_innermost around = {};

	if (!l->call.frame || l->call.frame > l->landing)
		return 1;
	call = call_of(l, &key);
	if (!call) {
		l->call.frame = LBT_UNKNOWN_AROUND;
		return 1;
	}
	around.frame = call->around_frame;
	around.probe = call->around_probe;
	call->around_frame = l->last.frame;
	call->around_probe = l->last.probe;
	l->last = l->call;
	l->call = around;
	return 0;
}

/* Sends the entry of a call, and forgets it; 1 where there are no more. */
static long show_left(__u64 number, struct leaving *l)
{
	const struct lbt_spec *entry;
	struct lbt_open_call *call;
	struct lbt_call_key key;

	if (!l->call.frame)
		return 1;
	call = call_of(l, &key);
	if (!call)
		return 1;
	l->call.frame = call->around_frame;
	l->call.probe = call->around_probe;
	entry = bpf_map_lookup_elem(&specs, &call->spec);
	if (call->spec == LBT_LEFT_OUT || call->time < l->born) {
		/* known to be left, or of a former thread of this number, which ended within it */
	} else if (entry && entry->shows_left) {
		l->at.frame = key.frame;
		l->at.time = call->time;
		l->at.probe = call->probe;
		send(&l->at, entry, call->values, call->faults);
	} else {
		increment(LBT_LEFT_UNCOMPARED);
	}
	bpf_map_delete_elem(&open_calls, &key);
	return 0;
}

#ifdef LBT_EARLY
#define EACH_LEFT(function, l)                                                                     \
	for (int i = 0; i < LBT_MOST_LEFT; i++)                                                    \
		if (function(i, l))                                                                \
			break;
#else
#define EACH_LEFT(function, l) bpf_loop(LBT_MOST_LEFT, function, l, 0)
#endif

/* The calls that a landing shows to be left. */
static __noinline int show_all_left(struct pt_regs *ctx, __u64 cookie)
{
	__u32 number = LBT_COOKIE_SPEC(cookie);
	const struct lbt_spec *spec = bpf_map_lookup_elem(&specs, &number);
	struct lbt_innermost *innermost;
	struct leaving l = { .at = { .frame = STACK_POINTER(ctx), .kind = LBT_OPEN } };

	if (!spec || !identify(&l.at))
		return 0;
	l.at.frame += spec->sp_delta;
	l.at.stack = l.at.frame;
	if (on_altstack(l.at.stack))
		l.at.bits |= LBT_ON_ALTSTACK;
	if (config.go && spec->go)
		find_goroutine(ctx, spec, &l.at);
	else
		find_stack(&l.at);
	l.landing = l.at.frame;
	innermost = innermost_of(&l.at);
	if (!innermost)
		return 0;
	l.call = *innermost;
	EACH_LEFT(turn, &l);
	if (!l.last.frame)
		return 0;
	*innermost = l.call;
	l.call = l.last;
	l.born = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), group_leader, start_time);
	if (!l.at.other)
		l.born = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), start_time);
	resolve_inner_tid(&l.at);
	if (any_lost)
		send_losses(&l.at);
	EACH_LEFT(show_left, &l);
	return 0;
}

/* What every landing reports: with what is above a frame of its own, it would take too much room. */
static __noinline int land(struct pt_regs *ctx)
{
	handle_hit(ctx, LBT_LANDED, false);
	return 0;
}

#endif
