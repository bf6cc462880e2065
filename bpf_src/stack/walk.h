/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * The stack at a hit (5.17: not for early.bpf.c): of the kernel, if it is there, then of the program.
 *
 *     struct stack_walk *walk = walk_user_stack(ctx, limit, LBT_AT_ENTRY);
 *
 *     if (walk) { walk->depth, walk->frames, walk->hash, walk->end }
 *
 * A frame (struct lbt_stack_frame, wire.h) has the file and the offset where it stands, so that it can
 * be named after its process has gone. One without LBT_FRAME_EXACT stands behind a call: it is named by
 * the offset less 1. Where a stack is cut, ``end`` says why (enum lbt_stack_end). The memory is the thread's own, until its next walk; NULL where there is none. It is not on the
 * program's stack, because the verifier would then follow each turn of the loop by itself.
 */
#ifndef WALK_H
#define WALK_H

#include "event.h"
#include "stack/hooked.h"
#include "stack/mapping.h"
#include "stack/table.h"

/* Where in a function the registers were taken. */
enum lbt_stack_place {
	LBT_AT_ENTRY = 1, /* nothing has been pushed, or all is popped but the return address */
	LBT_AMID = 2,
	LBT_AFTER_RETURN = 3, /* the instruction pointer is the return address already */
};

/* Notes where the walk stands; what is in no file is distinguished by its address. */
static __always_inline void add_frame(struct stack_walk *walk, const struct stack_mapping *in)
{
	struct lbt_stack_frame *frame;
	__u32 number = walk->depth;

	barrier_var(number); /* keeps the bound, which the verifier needs */
	frame = &walk->frames[number & (LBT_STACK_FRAMES - 1)];

	frame->address = walk->ip;
	frame->offset = in && in->inode ? walk->ip - in->start + in->offset : 0;
	frame->inode = in ? in->inode : 0;
	frame->device = in ? in->device : 0;
	frame->flags = (walk->exact ? LBT_FRAME_EXACT : 0) | walk->guessed;
	walk->hash ^= frame->inode ? frame->offset ^ frame->inode << 40 : frame->address;
	walk->hash *= 0x9e3779b97f4a7c15ULL;
	walk->hash ^= walk->hash >> 29;
	walk->depth++;
}

#ifdef LBT_ATOMIC

static long take_kernel_frame(__u64 index, void *data)
{
	struct stack_walk *walk = *(struct stack_walk **)data;

	barrier_var(index); /* keeps the bound, which the verifier needs */
	walk->ip = walk->kernel[index & (LBT_STACK_FRAMES - 1)];
	walk->exact = !index && walk->kernel[0] == walk->kernel_exact;
	add_frame(walk, NULL);
	return walk->depth >= walk->limit;
}

/* Lets a walk begin with the frames of the kernel, where there are some. */
static __noinline void add_kernel_frames(struct stack_walk *walk)
{
	walk->guessed = LBT_FRAME_KERNEL;
	if (walk->kernel_exact && walk->kernel[0] != walk->kernel_exact) {
		/* the kernel begins with the caller where ftrace leads to the probe (perf_hw_regs()) */
		walk->ip = walk->kernel_exact;
		walk->exact = 1;
		add_frame(walk, NULL);
	}
	bpf_loop(walk->kernel_depth, take_kernel_frame, &walk, 0);
}

/*
 * Takes the stack of the kernel at a hit, of which it leaves out the first frames, for all walks until
 * end_walks(): only a program itself has the context that the kernel wants for it. With none of a
 * context the walks are of user stacks alone.
 */
#define begin_walks(ctx, leaves_out, where)                                                        \
	do {                                                                                       \
		struct stack_walk *walk = config.walks_stacks ? walk_of_cpu() : NULL;              \
		long size;                                                                         \
		if (!walk || ++walk->users > 1)                                                    \
			break;                                                                     \
		walk->kernel_depth = 0;                                                            \
		walk->kernel_exact = where;                                                        \
		if (!ctx)                                                                          \
			break;                                                                     \
		size = bpf_get_stack(ctx, walk->kernel, sizeof(walk->kernel), leaves_out);         \
		walk->kernel_depth = size > 0 ? size / 8 : 1;                                      \
		if (size <= 0)                                                                     \
			walk->kernel[0] = 0;                                                       \
	} while (0)

/* Whether the current process is. A function of its own: what calls it has little room on the stack. */
static __noinline bool is_traced(void)
{
	struct hit who = {};

	return identify(&who);
}

static __always_inline void end_walks(void)
{
	struct stack_walk *walk = config.walks_stacks ? walk_of_cpu() : NULL;

	if (walk)
		walk->users--;
}

#else

static __always_inline void add_kernel_frames(struct stack_walk *walk)
{
}

#endif

/* Where a hit is; of a system call the registers are those of the function that makes it. */
static __always_inline __u32 stack_place(const struct hit *at, const struct lbt_spec *spec,
					 bool popped)
{
	if (popped)
		return LBT_AFTER_RETURN;
	return spec->sp_delta > 0 || (at->kind == LBT_POINT && !spec->sp_delta) ? LBT_AMID
										: LBT_AT_ENTRY;
}

#if defined(__TARGET_ARCH_x86)

#define FRAME_POINTER(r) ((r)->bp)
#define IS_USER(r) ((r)->cs & 3)

/* The caller's registers where the function has pushed nothing. */
static __always_inline __u32 leave_entered(struct stack_walk *walk)
{
	if (read_stack(walk, walk->sp, &walk->ip))
		return LBT_END_UNREADABLE;
	walk->sp += 8;
	return 0;
}

#elif defined(__TARGET_ARCH_arm64)

#define FRAME_POINTER(r) ((r)->user_regs.regs[29])
#define IS_USER(r) (!((r)->user_regs.pstate & 15))

static __always_inline __u32 leave_entered(struct stack_walk *walk)
{
	walk->ip = walk->registers.user_regs.regs[30];
	return 0;
}

#endif

/* The caller's registers by the frame pointer, which leads to where the caller's and the return
 * address are; 0 ends the chain. */
static __always_inline __u32 leave_by_frame_pointer(struct stack_walk *walk)
{
	const __u64 at = walk->bp;

	if (!at)
		return LBT_END_OUTERMOST;
	if (at < walk->sp || at & 7)
		return LBT_END_NO_TABLE; /* the register has something else */
	if (read_stack(walk, at, &walk->bp) || read_stack(walk, at + 8, &walk->ip))
		return LBT_END_UNREADABLE;
	walk->sp = at + 16;
	return 0;
}

static __noinline __u32 leave_frame(struct stack_walk *walk, const struct stack_mapping *in)
{
	struct stack_rule *rule;
	__u32 why;

	if (in->table.how == LBT_HOW_UNKNOWN)
		return LBT_END_NOT_YET;
	rule = walk->rule ? bpf_map_lookup_elem(&stack_rules, &walk->rule) : NULL;
	if (rule)
		return leave_by_rule(walk, rule);
	if (in->table.how == LBT_BY_TABLE)
		return LBT_END_NO_TABLE;
	if (walk->place == LBT_AT_ENTRY)
		return leave_entered(walk);
	if (in->table.how == LBT_BY_GUESS)
		walk->guessed = LBT_FRAME_GUESSED;
	why = leave_by_frame_pointer(walk);
	return why == LBT_END_NO_TABLE && !in->inode ? LBT_END_ANONYMOUS : why;
}

/* One frame: what it is, then the caller's registers. Returns why it is the last one. */
static __always_inline __u32 walk_frame(struct stack_walk *walk)
{
	struct stack_mapping *in = NULL;
	__u32 why;

	walk->at = walk->ip - !walk->exact;
	if (enter_mapping(walk))
		in = &walk->mappings[walk->in & (LBT_CACHED_MAPPINGS - 1)];
	if (!in && walk->busy) {
		add_frame(walk, NULL);
		return LBT_END_BUSY;
	}
	if ((!in || !in->executable) && walk->depth > walk->above)
		return LBT_END_NO_TABLE; /* a return address that is none */
	add_frame(walk, in);
	if (!in)
		return LBT_END_NO_TABLE;
	walk->at += in->offset - in->start;
	walk->exact = 0;
	walk->guessed = 0;
	find_rule(walk);
	why = leave_frame(walk, in);
	walk->place = LBT_AMID;
	if (!why && walk->ip == walk->trampoline && walk->trampoline &&
	    !find_hooked(walk, walk->sp - 8))
		why = LBT_END_HOOKED;
	return why || walk->ip ? why : LBT_END_OUTERMOST;
}

static long take_frame(__u64 index, void *data)
{
	struct stack_walk *walk = *(struct stack_walk **)data;

	if (walk->depth >= walk->limit)
		return 1; /* LBT_END_LIMIT is what it begins with */
	walk->end = walk_frame(walk);
	if (walk->end)
		return 1;
	walk->end = LBT_END_LIMIT;
	return 0;
}

/* The memory for a walk of the current thread from these registers; NULL where there is none. */
static __noinline struct stack_walk *begin_walk(struct pt_regs *ctx, __u32 limit, __u32 place)
{
	struct stack_walk *walk = find_walk();

	if (!walk || bpf_probe_read_kernel(&walk->registers, sizeof(walk->registers), ctx))
		return NULL;
	walk->limit = limit;
	walk->depth = 0;
	walk->hash = 0;
	walk->end = LBT_END_LIMIT;
	add_kernel_frames(walk);
	walk->above = walk->depth;
	walk->outside = !IS_USER(&walk->registers);
	if (walk->outside) { /* a function of the kernel: what the program has called it by */
		ctx = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
		if (bpf_probe_read_kernel(&walk->registers, sizeof(walk->registers), ctx))
			return NULL;
		place = LBT_AT_ENTRY;
	}
	if (!bpf_get_current_task_btf()->mm || !IS_USER(&walk->registers)) {
		/* a thread of the kernel, or one that has ended its program */
		walk->end = LBT_END_OUTERMOST;
		return walk->above ? walk : NULL;
	}
	walk->ip = INSTRUCTION_POINTER(&walk->registers);
	walk->sp = STACK_POINTER(&walk->registers);
	walk->bp = FRAME_POINTER(&walk->registers);
	walk->place = place == LBT_AFTER_RETURN ? LBT_AMID : place;
	walk->exact = place != LBT_AFTER_RETURN;
	walk->guessed = 0;
	walk->window = 1; /* no address of a word: nothing is read yet */
	forget_mappings(walk);
	start_hooked(walk);
	return walk;
}

/* Walks on from what begin_walk() has set. */
#ifdef LBT_ATOMIC
/*
 * A global function, which the verifier looks at once, not for each state of what calls it: that of 7.2
 * gave up on system calls with stacks. It finds the memory itself: what it is given would be no key of
 * a map (6.1). Elsewhere one more frame is too much for the stack of programs.
 */
__noinline int walk_frames(void)
{
	/* up to 6.7 the verifier looks at it though nothing calls it: then there are no such maps */
	struct stack_walk *walk = config.walks_stacks ? find_walk() : NULL;

	if (walk)
		bpf_loop(LBT_STACK_FRAMES, take_frame, &walk, 0);
	return 0;
}
#define WALK_FRAMES(walk) walk_frames()
#else
#define WALK_FRAMES(walk) bpf_loop(LBT_STACK_FRAMES, take_frame, &walk, 0)
#endif

/* Walks the stack of the current thread from these registers, at most limit frames. */
static __always_inline struct stack_walk *walk_user_stack(struct pt_regs *ctx, __u32 limit,
							  __u32 place)
{
	struct stack_walk *walk = begin_walk(ctx, limit, place);

	if (walk && walk->end == LBT_END_LIMIT)
		WALK_FRAMES(walk);
	return walk;
}

#endif
