/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * What the BPF programs and user space agree on. The bindings are generated
 * from this file (build/bindings.py); lbtrace/wire.py holds the layout of an
 * event once more, and a test compares it with the objects' BTF.
 */
#ifndef LBTRACE_H
#define LBTRACE_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define LBT_VALUES 6	 /* values in the fixed part of an event */
#define LBT_FETCHES 16	 /* values of a probe */
#define LBT_DEREFS 4	 /* loads on the way to a value */
#define LBT_CONDITIONS 16 /* comparisons of a probe */
#define LBT_TEXTS 4	 /* texts that strings are compared with */
#define LBT_TEXT_WORDS 8 /* of a text, zeros behind it */
#define LBT_TEXT_LIMIT 62
#define LBT_COMM 16	 /* TASK_COMM_LEN, include/linux/sched.h */
#define LBT_RANGES 4	 /* of addresses to which a jump may lead and stay */

enum lbt_kind {
	LBT_ENTRY = 1,
	LBT_RETURN = 2,
	LBT_LOSS = 3,	  /* made by user space: what was lost last of all */
};

/*
 * One hit of a probe, as the gather function leaves it. In the ring there are,
 * by size, shorter forms: most calls have few values, and what is written to
 * the ring is what a hit costs most.
 *
 *     LBT_SHORT_RETURN  two values
 *     LBT_SHORT_ENTRY   two values, runner
 *     LBT_WHOLE         six values, runner, chunks of texts
 *     LBT_WIDE          six values, ten more, runner, chunks of texts
 *
 * The gather function packs the further values that there are and the texts,
 * in the order of their slots; kind then is the kind alone, and blob the
 * length of all that.
 */
struct lbt_event {
	__u64 time;	  /* CLOCK_MONOTONIC, ns */
	__u64 frame;	  /* stack pointer at function entry */
	__u64 goroutine;  /* 0 outside Go */
	__u32 probe;	  /* position in the plan */
	__u32 pid;
	__u32 tid;
	__u16 kind;	  /* enum lbt_kind; high byte: the number of further values */
	__u16 faults;	  /* bit n: value n could not be read */
	__u32 lost;	  /* of this lane since its last event: entries << 16 | returns */
	__u32 blob;	  /* size of the chunks; high half: the slots whose text follows */
	__u64 values[LBT_VALUES];
};

/*
 * What calls nest by, a lane: a thread, by its tid, or a goroutine, by its
 * process and, in the lower bits, its number (from 1 on).
 */
#define LBT_LANE_BITS 42

/* What a lane has lost and not told yet; tid is where it ran when it began to. */
struct lbt_loss {
	__u32 entries;
	__u32 returns;
	__u32 pid;
	__u32 tid;
};

/* Who made a call. */
struct lbt_runner {
	char comm[LBT_COMM];
	__u32 born;	  /* when it started: another where the tid is reused */
	__u32 inside;	  /* the tid in a pid namespace of its own, or 0; and above that */
			  /* how many programs the process has executed */
};

#define LBT_INSIDE_BITS 22 /* PID_MAX_LIMIT, include/linux/threads.h */

#define LBT_SHORT_VALUES 2
#define LBT_SHORT_RETURN (sizeof(struct lbt_event) - 8 * (LBT_VALUES - LBT_SHORT_VALUES))
#define LBT_SHORT_ENTRY (LBT_SHORT_RETURN + sizeof(struct lbt_runner))
#define LBT_WHOLE (sizeof(struct lbt_event) + sizeof(struct lbt_runner))
#define LBT_MORE (8 * (LBT_FETCHES - LBT_VALUES))
#define LBT_WIDE (LBT_WHOLE + LBT_MORE)

enum lbt_base {
	LBT_REGISTER = 0,
	LBT_STACK = 1,	  /* relative to the stack pointer at function entry */
	LBT_CONSTANT = 2,
	LBT_SLOT = 3,	  /* the value of an earlier fetch; reg is its slot */
};

enum lbt_read {
	LBT_VALUE = 0,	  /* what the steps so far gave */
	LBT_INTEGER = 1,  /* size bytes in memory there */
	LBT_STRING = 2,	  /* a NUL-terminated string there */
	LBT_BYTES = 3,	  /* as many bytes there as value length_from says */
};

/*
 * Strings and bytes lie behind the event in chunks, one each: small ones where
 * all fit, else large ones. How many chunks of which size:
 */
#define LBT_SMALL_CHUNK 128
#define LBT_LARGE_CHUNK 4096
#define LBT_CHUNKS 8

enum lbt_texts {
	LBT_SMALL_1 = 1,
	LBT_SMALL_2 = 2,
	LBT_SMALL_8 = 3,
	LBT_LARGE_1 = 4,
	LBT_LARGE_8 = 5,
};

/*
 * Of strings that go on the length is counted: at most so many pieces, of as
 * many bytes, less one each.
 */
#define LBT_PIECES 128
#define LBT_PIECE 16384

/*
 * How to get one value: lbtrace.model.Fetch. The value of a string or bytes is,
 * in the low half, how many bytes are in its chunk and, in the high half, the
 * true length, or 0xffffffff where nobody could tell. One byte of a chunk stays
 * free. Where it faults, the value is the address that was to be read.
 *
 * With plus, the value of the earlier slot plus - 1 is added, factor times.
 *
 * Of a value or an integer some bits count: it is shifted left, so that the
 * highest of them is bit 63, then right.
 */
struct lbt_fetch {
	__u8 base;	  /* enum lbt_base */
	__u8 reg;	  /* position in the kernel's struct pt_regs, in words */
	__u8 read;	  /* enum lbt_read */
	__u8 size;	  /* of an integer in memory: 1 to 8 */
	__u8 is_signed;
	__u8 derefs;
	__u8 length_from; /* its value is read before this one's bytes; 0xff: none */
	__u8 plus;
	__u32 limit;	  /* of strings and bytes */
	__s32 deref[LBT_DEREFS];
	__u8 left;	  /* shifts */
	__u8 right;
	__u16 scale;	  /* bytes that each unit of length_from's value stands for */
	__u8 optional;	  /* a fault is no loss */
	__u8 pad[3];
	__s32 factor;
	__s64 offset;
};

enum lbt_relation {
	LBT_LESS = 1,
	LBT_EQUAL = 2,
	LBT_GREATER = 4,
};

/* What conditions and fetches refer to beside the values of a probe, by slot. */
#define LBT_SLOT_PID 16
#define LBT_SLOT_TID 17
#define LBT_SLOT_DURATION 18 /* of a call that returns, ns */
#define LBT_SLOT_KEPT 19     /* what a register held when the call was entered */
#define LBT_SLOTS 20
#define LBT_SLOT_COMM 20

/* A text counts as 0 where it is the one wanted, else as 1. Those of texts come first. */
struct lbt_condition {
	__u8 slot;
	__u8 relations;	  /* of the value to the operand: those that hold */
	__u8 is_signed;
	__u8 group;	  /* below 32; alternatives share one, all groups must hold */
	__u8 text;	  /* which is wanted, from 1 on; 0: a number is compared */
	__u8 length;	  /* of the text */
	__u8 prefix;	  /* it may go on */
	__u8 other;	  /* the operand is that of slot other - 1, if not 0 */
	__u64 operand;
};

struct lbt_text {
	__u64 words[LBT_TEXT_WORDS];
	__u64 masks[LBT_TEXT_WORDS]; /* what of them counts */
};

#define LBT_NO_REGISTER 255

/* Beside the processor's flags, bits that it does not use: */
#define LBT_FLAG_LESS 0x1000000	   /* sign and overflow differ */
#define LBT_FLAG_NO_CARRY 0x2000000 /* on arm64 */

/*
 * Whether a jump under a probe is taken, if it tests a register, and where it leads, if
 * that is computed: to base + index << shift +
 * offset, or to what memory there holds. It stays in the function where its distance
 * from the instruction is in one of the ranges.
 */
struct lbt_jump {
	__u8 computed;
	__u8 base;	  /* registers, as in struct lbt_fetch */
	__u8 index;
	__u8 shift;
	__u8 loads;
	__u8 tested;	  /* 1 more than the place of a register that is tested, 0: none */
	__u8 nonzero;	  /* it jumps if what of that counts is not 0, */
	__u8 minus;	  /* less this */
	__s32 low[LBT_RANGES];
	__s32 high[LBT_RANGES]; /* not in the range */
	__s64 offset;
	__u64 mask;	  /* what of the tested register counts */
};

/*
 * What to send from a probe. Probes alike share a spec. With plain set the
 * values are the first six argument registers (entry) or the two result
 * registers (return), as they are.
 */
struct lbt_spec {
	__u8 plain;
	__u8 fetches;	  /* values, also of a plain spec */
	__u8 conditions;
	__u8 texts;	  /* enum lbt_texts; 0: none */
	__s32 sp_delta;	  /* stack pointer at entry less the one at the probe */
	__u32 text_slots; /* bit n: value n is a string or bytes */
	__u32 nothing;	  /* 0; the verifier must not know */
	__u8 more;	  /* fetches beyond LBT_VALUES */
	__u8 filtered;	  /* returns are sent only of calls whose entry passed */
	__u8 deferred;	  /* and the entry only then */
	__u8 go;	  /* where Go keeps g: enum lbt_go; 0: calls belong to threads */
	__u8 hooked;	  /* of a uretprobe */
	__u8 keeps;	  /* 1 more than the register that the return needs as it was at entry, */
			  /* on entries and exits; 0: none */
	__u8 text_slot[LBT_CHUNKS]; /* which text is in which chunk; behind the last: 0xff */
	__u32 unless;	  /* processor flags with any of which a hit does not count, */
	__u32 only;	  /* and with any of which it does; 0: in any case */
	__u32 go_goid;	  /* offset of g.goid */
	__u32 go_stack_high; /* offset of g.stack.hi */
	struct lbt_jump jump;
	struct lbt_fetch fetch[LBT_FETCHES];
	struct lbt_condition condition[LBT_CONDITIONS];
	struct lbt_text text[LBT_TEXTS];
};

/*
 * A call that has been entered: by frame and thread or goroutine. Of uretprobes the
 * probe counts too, as several calls of one frame return, one behind the other.
 */
struct lbt_call_key {
	__u64 frame;
	__u64 thread;
	__u64 probe;	  /* 1 more than its number, 0 where the exits are probed */
};

struct lbt_open_call {
	__u64 time;
	__u32 spec;	  /* of the entry */
	__u32 probe;
	__u64 faults;
	__u64 kept;	  /* what the register of the spec held */
	__u64 values[LBT_FETCHES]; /* where the entry is deferred */
};

/* A probe's cookie: its position in the plan, and its specs'. */
#define LBT_COOKIE_PROBE(cookie) ((__u32)(cookie))
#define LBT_COOKIE_ENTRY(cookie) ((__u32)((cookie) >> 32) & 0xffff)
#define LBT_COOKIE_RETURN(cookie) ((__u32)((cookie) >> 48))

enum lbt_go {
	LBT_GO_REGISTER = 1,
	LBT_GO_THREAD = 2,   /* below the thread pointer */
};

/*
 * Constants of a load: the whole of .rodata.config. The verifier removes what they
 * switch off.
 */
struct lbt_config {
	__u64 pidns_device;  /* namespace of the pids, 0: the initial one */
	__u64 pidns_inode;
	__u64 only_cookie;   /* cookie of all hits where use_only_cookie is set, */
	__u32 use_only_cookie; /* for kernels without cookies (before 5.15) */
	__u32 root;	     /* only this process is traced, 0: all */
	__u32 follow;	     /* and the processes it forks */
	__u32 wakeup_bytes;  /* data at which the ring wakes its reader */
	__u32 generic;	     /* some spec is not plain */
	__u32 texts;	     /* bits of enum lbt_texts that specs have */
	__u32 wide;	     /* some spec has more than six values */
	__u32 compared_texts; /* some condition is of a text */
	__u32 related;	     /* some fetch or condition refers to another slot */
	__u32 filtered;	     /* some spec has conditions */
	__u32 deferred;	     /* some of them are of returns */
	__u32 keeping;	     /* some spec keeps a register */
	__u32 jumps;	     /* some jump is computed */
	__u32 never;	     /* 0 */
	__u32 may_fault;     /* programs are sleepable: reading may wait for a page (6.1) */
	__u32 typed_task;    /* bpf_get_current_task_btf works (5.11) */
	__u32 go;	     /* some spec is of Go */
};

enum lbt_counter {
	LBT_RING_FULL_ENTRY,
	LBT_RING_FULL_RETURN,
	LBT_STRING_FAULT,
	LBT_COUNTERS,
};

#endif
