/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * The user stack at a hit (5.17: not for early.bpf.c):
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

#include "stack/mapping.h"

/* Where in a function the registers were taken. */
enum lbt_stack_place {
	LBT_AT_ENTRY = 1, /* nothing has been pushed, or all is popped but the return address */
	LBT_AMID = 2,
	LBT_AFTER_RETURN = 3, /* the instruction pointer is the return address already */
};

struct walking {
	struct stack_walk *walk;
	__u32 limit;
};

static __always_inline void end_walk(struct stack_walk *walk, __u32 why)
{
	walk->end = why;
}

/* Notes where the walk stands; what is in no file is told apart by its address. */
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

#if defined(__TARGET_ARCH_x86)

#define FRAME_POINTER(r) ((r)->bp)

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

static __always_inline __u32 leave_frame(struct stack_walk *walk, struct stack_mapping *in)
{
	if (walk->place == LBT_AT_ENTRY)
		return leave_entered(walk);
	walk->guessed = LBT_FRAME_GUESSED;
	return leave_by_frame_pointer(walk);
}

/* One frame: what it is, then the caller's registers. */
static long walk_frame(__u64 index, void *data)
{
	struct walking *walking = data;
	struct stack_walk *walk = walking->walk;
	struct stack_mapping *in;
	__u32 why;

	if (walk->depth >= walking->limit) {
		end_walk(walk, LBT_END_LIMIT);
		return 1;
	}
	in = mapping_of(walk, walk->ip - !walk->exact);
	if (in && !in->executable) { /* a return address that is none */
		end_walk(walk, LBT_END_NO_TABLE);
		return 1;
	}
	if (!in && !walk->busy && walk->depth) {
		end_walk(walk, LBT_END_NO_TABLE);
		return 1;
	}
	add_frame(walk, in);
	if (!in) {
		end_walk(walk, walk->busy ? LBT_END_BUSY : LBT_END_NO_TABLE);
		return 1;
	}
	walk->exact = 0;
	why = leave_frame(walk, in);
	walk->place = LBT_AMID;
	if (!why && !walk->ip)
		why = LBT_END_OUTERMOST;
	if (why) {
		end_walk(walk, why);
		return 1;
	}
	return 0;
}

/* Walks the stack of the current thread from these registers, at most limit frames. */
static __noinline struct stack_walk *walk_user_stack(struct pt_regs *ctx, __u32 limit, __u32 place)
{
	struct walking walking = { .limit = limit };
	struct stack_walk *walk = bpf_task_storage_get(
		&stack_walks, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!walk)
		return NULL;
	if (bpf_probe_read_kernel(&walk->registers, sizeof(walk->registers), ctx))
		return NULL;
	walking.walk = walk;
	walk->ip = INSTRUCTION_POINTER(&walk->registers);
	walk->sp = STACK_POINTER(&walk->registers);
	walk->bp = FRAME_POINTER(&walk->registers);
	walk->place = place == LBT_AFTER_RETURN ? LBT_AMID : place;
	walk->exact = place != LBT_AFTER_RETURN;
	walk->guessed = 0;
	walk->depth = 0;
	walk->hash = 0;
	walk->end = LBT_END_LIMIT;
	walk->window = 1; /* no address of a word: nothing is read yet */
	forget_mappings(walk);
	bpf_loop(LBT_STACK_FRAMES, walk_frame, &walking, 0);
	return walk;
}

#endif
