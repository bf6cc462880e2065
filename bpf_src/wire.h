/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * What the BPF programs send. lbtrace/model/wire.py holds the layout of an event once more, and a
 * test compares it with the objects' BTF.
 */
#ifndef WIRE_H
#define WIRE_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define LBT_VALUES 6	 /* values in the fixed part of an event */
#define LBT_FETCHES 16	 /* values of a probe */
#define LBT_COMM 16	 /* TASK_COMM_LEN, include/linux/sched.h */

enum lbt_kind {
	LBT_OPEN = 1,	   /* a call begins */
	LBT_CLOSE = 2,	   /* it ends */
	LBT_POINT = 3,	   /* any other hit */
	LBT_LOSS = 4,	   /* what the lane has lost since its last event; at the end from user space */
	LBT_UNPROBED = 5,  /* by user space: since when, and until when, closes may not be seen */
	LBT_UNWOUND = 6,   /* calls of the frame and below were left, unseen */
	LBT_FORK = 7,	   /* the thread forks a process */
	LBT_EXEC = 8,	   /* its process has executed a program */
	LBT_INTERRUPT = 9, /* a handler will run on the thread's alternate signal stack */
	LBT_OFF_CPU = 10,  /* how long the thread has not been running so far */
	LBT_CALLERS = 11,  /* the callers of the hit after it */
};
#define LBT_KINDS 4	   /* that may be lost, and 0 */

/* Bits besides the kind of an event: */
#define LBT_KIND_MASK 0x0f
#define LBT_UNHOOKED 0x10    /* an opening whose closing the kernel does not hook */
#define LBT_ON_ALTSTACK 0x20 /* the call is on the thread's alternate signal stack */
#define LBT_NAMED 0x80	     /* there is a runner, which the collect function takes out */

/*
 * One hit of a probe, as the collect function leaves it. In the ring there are,
 * by size, shorter forms: most calls have few values, and what is written to
 * the ring is what a hit costs most.
 *
 *     LBT_SHORT         two values
 *     LBT_SHORT_NAMED   two values, runner
 *     LBT_WHOLE         six values, runner, chunks of texts
 *     LBT_WIDE          six values, ten more, runner, chunks of texts
 *
 * The collect function packs the further values that there are and the texts,
 * in the order of their slots; kind then is the kind alone, and blob the
 * length of all that.
 *
 * An event of kind LBT_LOSS is short, and its two values are the lost of a
 * struct lbt_loss. So is one of kind LBT_FORK, with the values of a struct lbt_fork;
 * its frame is the stack pointer there. One of kind LBT_EXEC has the inside of the thread's
 * struct lbt_runner, without its number, as its first value, and no frame. One of kind LBT_INTERRUPT has
 * no values; its frame is the stack pointer of what the signal interrupts. One of kind LBT_OFF_CPU has
 * those of a struct lbt_off_cpu. One of kind LBT_CALLERS precedes
 * the event of a hit, whose time and frame it has: its one text are struct lbt_stack_frame, and value 1
 * is an enum lbt_stack_end.
 */
struct lbt_event {
	__u64 time;	  /* CLOCK_MONOTONIC, ns */
	__u64 frame;	  /* stack pointer at function entry */
	__u64 lane;       /* outside Go the stack, if not the thread's own: other_stack() */
	__u32 probe;	  /* position in the plan */
	__u32 pid;
	__u32 tid;
	__u16 kind;	  /* enum lbt_kind and bits; high byte: the number of further values */
	__u16 faults;	  /* bit n: value n could not be read */
	__u32 cpu;	  /* on which the probe was hit */
	__u32 blob;	  /* size of the chunks; high half: the slots whose text follows */
	__u64 values[LBT_VALUES];
};

/*
 * A lane, by which calls nest: a thread, by its tid, or a goroutine, by its
 * process and, in the lower bits, its number (from 1 on).
 */
#define LBT_LANE_BITS 42

/* What a lane has lost and not reported yet; tid is the thread on which that began. */
struct lbt_loss {
	__u32 lost[LBT_KINDS]; /* by kind */
	__u32 pid;
	__u32 tid;
};

/* The thread that made a call. */
struct lbt_runner {
	char comm[LBT_COMM];
	__u32 born;	  /* when it started: differs where the tid is reused */
	__u32 inside;	  /* the tid in a pid namespace of its own, or 0; and above that */
			  /* how many programs the process has executed */
};

#define LBT_INSIDE_BITS 22 /* PID_MAX_LIMIT, include/linux/threads.h */

/* A process that a thread forks, as in struct lbt_runner. */
struct lbt_fork {
	__u32 pid;
	__u32 born;
	__u32 inside;
	__u32 continues; /* on a copy of the thread's stack, or on that itself (vfork) */
};

/* How long a thread was blocked, and runnable without a processor, ns; all ones: not known. */
struct lbt_off_cpu {
	__u64 blocked;
	__u64 runnable;
};

#define LBT_STACK_FRAMES 128 /* of a stack, at most */

/* Where a frame of a stack stands: bpf_src/stack/walk.h. */
struct lbt_stack_frame {
	__u64 address;
	__u64 offset;	  /* in the file */
	__u64 inode;	  /* 0: in no file */
	__u32 device;	  /* as in the kernel: major << 20 | minor */
	__u32 flags;
};

/* A stack as action stacks keeps it: a struct stack_walk begins so. */
struct lbt_stack {
	__u32 depth; /* frames */
	__u32 end;   /* enum lbt_stack_end */
	__u64 hash;
	struct lbt_stack_frame frames[LBT_STACK_FRAMES]; /* the innermost first */
};

#define LBT_FRAME_EXACT 1   /* this instruction runs; otherwise it is the one after a call */
#define LBT_FRAME_GUESSED 2 /* found by a frame pointer, without a table that says there is one */
#define LBT_FRAME_KERNEL 4 /* in the kernel, whose address it is; 0: not known */

/* Why a stack has no further frames. */
enum lbt_stack_end {
	LBT_END_OUTERMOST = 1,
	LBT_END_LIMIT = 2,
	LBT_END_NO_TABLE = 3,	/* the code has no table, nor a frame pointer */
	LBT_END_UNREADABLE = 4, /* memory */
	LBT_END_ANONYMOUS = 5,	/* code of no file, without a frame pointer */
	LBT_END_BUSY = 6,	/* another thread changes the mappings */
	LBT_END_NOT_YET = 7,	/* the file's table was not loaded yet */
	LBT_END_HOOKED = 8,	/* a uretprobe replaced the return address, and nothing tells it */
};

#define LBT_SHORT_VALUES 2
#define LBT_SHORT (sizeof(struct lbt_event) - 8 * (LBT_VALUES - LBT_SHORT_VALUES))
#define LBT_SHORT_NAMED (LBT_SHORT + sizeof(struct lbt_runner))
#define LBT_WHOLE (sizeof(struct lbt_event) + sizeof(struct lbt_runner))
#define LBT_MORE (8 * (LBT_FETCHES - LBT_VALUES))
#define LBT_WIDE (LBT_WHOLE + LBT_MORE)

#endif
