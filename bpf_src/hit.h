/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* A hit of a probe, whatever program runs it: whose it is, and what its spec says. */
#ifndef HIT_H
#define HIT_H

#include "generic.h"
#include "jump.h"
#include "return_places.h"
#include "stack/send.h"
#include "stacks.h"
#include "within.h"

static __always_inline __u64 cookie_of(void *ctx)
{
	return config.use_only_cookie ? config.only_cookie : bpf_get_attach_cookie(ctx);
}

/* Two words of runtime.g, its first ones: where the goroutine's stack lies. */
struct go_stack {
	__u64 low;
	__u64 high;
};

/*
 * Whether that may be the stack on which a function was called. Stacks of goroutines have a power
 * of two of bytes (stackalloc() in Go's src/runtime/stack.go). Where Go is entered from C or by the
 * loader, in handlers of signals and in assembly, the register of g may hold anything, or the
 * goroutine that the thread has left for a stack of its own.
 */
static __always_inline bool is_go_stack(const struct go_stack *stack, __u64 pointer)
{
	const __u64 size = stack->high - stack->low;

	return pointer - stack->low < size && !(size & (size - 1));
}

/*
 * The goroutine that runs, and the frame as its distance from the top of the
 * goroutine's stack: Go moves stacks. The distance is negative, so that a
 * nested call has the lower frame as everywhere. What the thread does on its own stack has
 * no goroutine: there functions of C are counted as well.
 */
static __always_inline void find_goroutine(struct pt_regs *ctx, const struct lbt_spec *spec,
					   struct hit *at)
{
	struct go_stack stack;
	__u64 g;

	if (spec->go == LBT_GO_REGISTER) {
		g = GO_REGISTER(ctx);
		asm volatile("" : "+r"(g)); /* keeps the load here, as APART() does */
	} else if (bpf_probe_read_user(&stack.low, sizeof(g),
				       (void *)(thread_pointer() - sizeof(g)))) {
		return;
	} else {
		g = stack.low;
	}
	if (bpf_probe_read_user(&stack, sizeof(stack),
				(void *)(g + spec->go_stack_high - sizeof(stack.low))) ||
	    !is_go_stack(&stack, at->stack))
		return;
	if (bpf_probe_read_user(&at->goroutine, sizeof(__u64), (void *)(g + spec->go_goid)))
		at->goroutine = 0;
	else if (at->goroutine)
		at->frame = spec->ends_lane ? ~0ULL : at->frame - stack.high;
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

/* True if this hit is a loop back to the entry of a call already hooked. */
static __noinline bool is_repeated(struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct return_instance *pending = BPF_CORE_READ(task, utask, return_instances);
	__u32 number = LBT_COOKIE_SPEC(cookie);
	const struct lbt_spec *spec;

	if (!pending || BPF_CORE_READ(pending, stack) != STACK_POINTER(ctx))
		return false;
	spec = bpf_map_lookup_elem(&specs, &number);
	return spec && spec->loops_to_entry && goes_round(ctx, pending);
}

/* Whether the return of a call that opens is hooked. */
struct hooking {
	bool refuses;	/* the program decides, and does not want what harms */
	bool refused;	/* found out only of a call that may be traced */
	bool too_deep;
};

enum { LBT_REFUSED = 1, LBT_IS_TOO_DEEP = 2 };

/* A function of its own: what calls this has little room on the stack. */
static __noinline __u32 decide(bool refuses, __u64 cookie, struct pt_regs *ctx)
{
	__u32 decided = 0;

	/* Hooked in each round, one call would take the room of 64. */
	if (refuses && (hook_harms(ctx) || (config.loops_to_entry && is_repeated(ctx, cookie))))
		decided |= LBT_REFUSED;
	if (config.hooked && LBT_COOKIE_RETURN_SPEC(cookie) && is_too_deep() &&
	    !is_repeated(ctx, cookie))
		decided |= LBT_IS_TOO_DEEP;
	return decided;
}

/*
 * Where a hit is that is no function of the program, but below one: its frame, and the pointer of
 * the stack that the program is on.
 */
struct below {
	__u64 frame;
	__u64 stack;
};

/* Counts a hit of which nothing but the probe and the process is asked. */
static __noinline bool count_alone(const struct hit *at)
{
	struct lbt_simple_key key = { .probe = at->probe, .pid = at->pid };
	struct count *found = aggregated(&count_map, &key, &count_zero);

	if (found)
		ADD(&found->hits, 1);
	return true;
}

/*
 * What becomes of a hit with these registers, whose probe has this cookie. False where the call
 * is not traced. A uretprobe's return has popped the return address already; a probe on a
 * function's ret has not. Most hits may be outside of what is traced: that is asked first. Values
 * are fetched from the registers, or at a tracepoint from its record, if there is one.
 */
static __always_inline bool handle_record(__u64 cookie, struct pt_regs *ctx, __u64 record,
					  const struct below *below, __u16 kind, bool popped,
					  struct hooking *hooking)
{
	const struct lbt_spec *spec;
	struct lbt_outermost *found = NULL;
	struct hit at = {
		.frame = below ? below->frame : STACK_POINTER(ctx),
		.probe = LBT_COOKIE_PROBE(cookie) + popped,
		.entry = LBT_COOKIE_PROBE(cookie),
		.spec = popped ? LBT_COOKIE_RETURN_SPEC(cookie) : LBT_COOKIE_SPEC(cookie),
		.kind = kind & LBT_KIND_MASK,
	};

	KEEP_TASK_STACK();
	if (!identify(&at))
		return false;
	spec = bpf_map_lookup_elem(&specs, &at.spec);
	if (!spec)
		return false;
	if (!hit_applies(ctx, spec))
		return false;
#ifndef LBT_ATOMIC
	if (config.places && spec->otherwise && !returns_to_relay(ctx, &at, spec)) {
		at.probe += 1;
		at.spec = spec->otherwise - 1;
		spec = bpf_map_lookup_elem(&specs, &at.spec);
		if (!spec)
			return false;
	}
#endif
	if (config.counting)
		return count_alone(&at);
	if (!config.within) /* a hit outside needs none */
		at.time = bpf_ktime_get_ns();
	at.frame += popped ? -LBT_RETURN_SLOT : spec->sp_delta;
	at.stack = below ? below->stack : at.frame;
	if (record) /* its frame may be lower, to be inside of the kernel's functions */
		at.stack = STACK_POINTER(ctx) - sizeof(__u64);
	if (config.go && spec->go)
		find_goroutine(ctx, spec, &at);
	if (kind == LBT_CLOSE && !popped)
		at.entry -= LBT_COOKIE_DISTANCE(cookie);
	if (config.relays && kind == LBT_CLOSE && spec->relay && !spec->jumps &&
	    !has_jumped(&at, spec))
		return false;
	if (!at.goroutine && on_altstack(at.stack))
		at.bits |= LBT_ON_ALTSTACK;
	if (!(config.go && spec->go))
		find_stack(&at);
	if (record && at.other & 1) {
		/* the kernel changes the mappings: the point is in the call that is open, ends none */
		at.other = 0;
		at.frame = 1;
	}
	if (config.within && spec->within) {
		found = find_outermost(&at, spec);
		if (!found && !(spec->within == LBT_OUTER && kind == LBT_OPEN))
			return false;
	}
	if (hooking) {
		const __u32 decided = decide(hooking->refuses, cookie, ctx);

		hooking->refused = decided & LBT_REFUSED;
		hooking->too_deep = decided & LBT_IS_TOO_DEEP;
		at.bits |= decided ? LBT_UNHOOKED : 0;
	}
	if (config.within && spec->within && is_outside(&at, spec, found))
		return false;
	if (config.within)
		at.time = bpf_ktime_get_ns();
	if ((kind & LBT_KIND_MASK) == LBT_POINT && spec->named)
		at.bits |= LBT_NAMED;
	if (kind != LBT_CLOSE || config.deferred)
		resolve_inner_tid(&at);
	if (config.nesting && config.relays && kind == LBT_CLOSE && spec->jumps)
		jump_from(&at, spec->jumps == LBT_UNCOMPARED);
	if (config.relays && kind == LBT_CLOSE && spec->jumps && !jump_on(&at, spec))
		return true;
	if (config.within && config.aggregating && spec->action == LBT_SEND)
		return true; /* it only tells what is below certain calls */
	if (config.generic && !spec->plain) {
		if (process_hit(ctx, record, &at, spec, popped, kind == LBT_LANDED))
			return true;
		/* Nothing hooks its return then if the program decides. */
		if (kind == LBT_OPEN && config.filtered && spec->filtered &&
		    !(hooking && hooking->refuses && spec->hooked))
			remember_left_out(&at, spec);
		return config.within && spec->within == LBT_OUTER; /* it closes, too */
	}
	send_stack(ctx, &at, spec, popped);
	if (config.off_cpu && !report_off_cpu(&at))
		ring_full(&at);
	else if (config.chunk_layouts && !config.wide && spec->chunk_layout)
		send_selected_texts(ctx, &at, spec);
	else if (config.selecting && spec->selected)
		send_selected(ctx, &at, spec);
	else if (kind == LBT_CLOSE || spec->fetches <= LBT_SHORT_VALUES)
		send_short(ctx, &at);
	else
		send_plain(ctx, &at);
	return true;
}

/* The same where there is no record. */
static __always_inline bool handle_hit_of(__u64 cookie, struct pt_regs *ctx, __u16 kind,
					  bool popped, struct hooking *hooking)
{
	return handle_record(cookie, ctx, 0, NULL, kind, popped, hooking);
}

/*
 * The same where a call opens. False where its return is not to be hooked, if the program
 * refuses that.
 */
static __always_inline bool handle_opening(struct pt_regs *ctx, bool refuses)
{
	struct hooking hooking = { .refuses = refuses };

	if (!handle_hit_of(cookie_of(ctx), ctx, LBT_OPEN, false, &hooking))
		return false;
	if (hooking.too_deep)
		increment(LBT_TOO_DEEP);
	return !hooking.refused;
}

/* The same of programs whose context are the registers. */
static __always_inline bool handle_hit(struct pt_regs *ctx, __u16 kind, bool popped)
{
	return handle_hit_of(cookie_of(ctx), ctx, kind, popped, NULL);
}

#endif
