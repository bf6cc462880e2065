/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * What the BPF programs and user space agree on, besides events. The bindings are generated
 * from this file and wire.h (build/bindings.py), and lbtrace/model/wire_limits.py is
 * (build/limits.py).
 */
#ifndef LBTRACE_H
#define LBTRACE_H

#include "wire.h"

#define LBT_DEREFS 4	 /* loads on the way to a value */
#define LBT_CONDITIONS 16 /* comparisons of a probe */
#define LBT_TEXTS 4	 /* texts that strings are compared with */
#define LBT_TEXT_WORDS 8 /* of a text, padded with zeros */
#define LBT_TEXT_LIMIT 62
#define LBT_BACKUP_PROGRAMS 3 /* of each of a tracepoint's: bpf_src/backup_programs.h */
#define LBT_SYSCALLS 1024 /* numbers of system calls lie below */
#define LBT_RANGES 4	 /* of addresses to which a jump may lead and stay */

enum lbt_base {
	LBT_REGISTER = 0,
	LBT_STACK = 1,	  /* relative to the stack pointer at function entry */
	LBT_CONSTANT = 2,
	LBT_SLOT = 3,	  /* the value of an earlier fetch; reg is its slot */
	LBT_RECORD = 4,	  /* the address of a tracepoint's record */
	LBT_THREAD = 5,	  /* the thread pointer */
};

enum lbt_read {
	LBT_VALUE = 0,	  /* what the steps so far gave */
	LBT_INTEGER = 1,  /* size bytes in memory there */
	LBT_STRING = 2,	  /* a NUL-terminated string there */
	LBT_BYTES = 3,	  /* as many bytes there as value length_from says */
};

/* Strings and bytes follow the event in chunks, one each: small ones where all fit, else large. */
#define LBT_SMALL_CHUNK 128
#define LBT_LARGE_CHUNK 4096
#define LBT_CHUNKS 8

enum lbt_chunk_layout {
	LBT_SMALL_1 = 1,
	LBT_SMALL_2 = 2,
	LBT_SMALL_8 = 3,
	LBT_LARGE_1 = 4,
	LBT_LARGE_8 = 5,
};

/* The length of longer strings is counted in at most so many pieces of so many bytes, less one. */
#define LBT_PIECES 128
#define LBT_PIECE 16384

/* Of a histogram: below 64 each number has its bucket; above, each power of two is divided into 64. */
#define LBT_BUCKET_BITS 6
#define LBT_NO_BUCKET 0x7fffffff /* of hits whose value could not be read */

/* What is made of a value and an operand, before the steps that lead on. */
enum lbt_operation {
	LBT_MOVE = 0, /* their sum, as addresses are computed */
	LBT_AND,
	LBT_OR,
	LBT_XOR,
	LBT_MULTIPLY,
	LBT_SHIFT_LEFT, /* of shifts, one by less than the bits of size bytes is defined */
	LBT_SHIFT_RIGHT,
	LBT_SHIFT_RIGHT_SIGNED,
	LBT_DIVIDE, /* of the rest, one by another number than 0 */
	LBT_DIVIDE_SIGNED,
	LBT_REMAINDER,
	LBT_REMAINDER_SIGNED,
};

/*
 * How to get one value: lbtrace.model.Fetch. The value of a string or bytes is,
 * in the low half, how many bytes are in its chunk and, in the high half, the
 * true length, or 0xffffffff where that is unknown. One byte of a chunk stays
 * free. Where it faults, the value is the address that was to be read.
 *
 * With plus, the value of the earlier slot plus - 1 is added, factor times. It is the operand of an
 * operation instead, if there is one; without plus, operand is. The offset is added in any case.
 *
 * Of a value or an integer a range of bits is used: it is shifted left, so that the
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
	__u16 scale;	  /* bytes that each unit of length_from's value stands for; 0 of a string:
			   * how long it is beyond its limit is not asked */
	__u8 optional;	  /* a fault is no loss */
	__u8 space;	  /* enum lbt_space of fetch.h */
	__u8 operation;	  /* enum lbt_operation */
	__u8 pad;
	__s32 factor;
	__s64 offset;
	__s64 operand;
};

enum lbt_relation {
	LBT_LESS = 1,
	LBT_EQUAL = 2,
	LBT_GREATER = 4,
};

/* What conditions and fetches refer to besides the values of a probe, by slot. */
#define LBT_SLOT_PID 16
#define LBT_SLOT_TID 17
#define LBT_SLOT_INNER 17    /* where calls are timed: of its duration what those inside of it took */
#define LBT_SLOT_DURATION 18 /* of a call that returns, ns; at an entry 1 for one of the program */
#define LBT_SLOT_KEPT 19     /* what a register held when the call was entered; of a second and */
			     /* third, the slots of pid and tid: the stack has no room for more */
#define LBT_KEPT 3
#define LBT_SLOT_GOROUTINE 19 /* of functions of Go that keep no register; 0: none */
#define LBT_SLOTS 20
#define LBT_SLOT_COMM 20
#define LBT_SLOT_BLOCKED 21 /* of a call that returns: struct lbt_off_cpu */
#define LBT_SLOT_RUNNABLE 22

/* A text is compared as 0 if it is the wanted one, else as 1. Conditions on texts come first. */
struct lbt_condition {
	__u8 slot;
	__u8 relations;	  /* of the value to the operand: those that hold */
	__u8 is_signed;
	__u8 group;	  /* below 32; alternatives share one, all groups must hold */
	__u8 text;	  /* which is wanted, from 1 on; 0: a number is compared */
	__u8 length;	  /* of the text */
	__u8 prefix;	  /* the value may be longer */
	__u8 other;	  /* the operand is that of slot other - 1, if not 0 */
	__u64 operand;
};

struct lbt_text {
	__u64 words[LBT_TEXT_WORDS];
	__u64 masks[LBT_TEXT_WORDS]; /* the bits that are compared */
};

#define LBT_NO_REGISTER 255

/* Besides the processor's flags, bits that it does not use: */
#define LBT_FLAG_LESS 0x1000000	   /* sign and overflow differ */
#define LBT_FLAG_NO_CARRY 0x2000000 /* on arm64 */

/*
 * Where a jump under a probe leads, if that is computed: to base + index << shift + offset, or to
 * what memory there holds. It stays in the function where its distance from the instruction is in
 * one of the ranges.
 */
struct lbt_jump {
	__u8 computed;
	__u8 base;	  /* registers, as in struct lbt_fetch */
	__u8 index;
	__u8 shift;
	__u8 loads;
	__s32 low[LBT_RANGES];
	__s32 high[LBT_RANGES]; /* not in the range */
	__s64 offset;
};

/* What is done with a hit whose conditions hold. */
enum lbt_action {
	LBT_SEND = 0,	  /* send an event; with what the opening probe of the call has kept */
	LBT_KEEP = 1,	  /* what an opening probe has fetched is for the closing one */
	LBT_AGGREGATE = 2, /* and above: actions of bpf_src/actions, numbered by build/limits.py */
};

/* Where a hit counts if only what is below calls of some functions does. */
enum lbt_within {
	LBT_ANYWHERE = 0, /* what reports stacks */
	LBT_INNER = 2,	  /* below such a call */
	LBT_OUTER = 3,	  /* it opens or closes such a call */
	LBT_LANDING = 4,  /* it shows that calls were left, such a one perhaps */
	LBT_LANE_END = 5, /* the lane ends, with such a call perhaps */
	LBT_INSIDE = 6,	  /* as LBT_INNER, in the body of a function, whose frame it may have */
	LBT_JOINED = 7,	  /* as LBT_INNER, of a function to which such a one may jump */
};

/* What becomes of a call that jumps to another function, as far as it is not just reported. */
enum lbt_jumping {
	LBT_GOES_ON = 1,  /* its return is seen by its relay */
	LBT_WAITS = 2,	  /* and its event is sent then: so the jump has none */
	LBT_UNCOMPARED = 3, /* its event would be sent then, but its return is not seen */
};

/*
 * The key by which actions aggregate: of keys that are values, struct lbt_aggregate_key, as far as
 * there are texts. Where none are, the process is one, and the key is struct lbt_simple_key.
 */
#define LBT_KEY_WORDS 8
#define LBT_KEY_TEXTS 3 /* the first words may be of texts, as the values of struct lbt_fetch */

struct lbt_simple_key {
	__u32 probe;
	__u32 pid;
	__s32 bucket;	  /* of a histogram; of negative numbers -1 - that of their complement */
	__u32 faults;	  /* bit n: word n could not be read */
};

struct lbt_aggregate_key {
	__u32 probe;
	__u32 pid;	  /* 0: it is among the words, if at all */
	__s32 bucket;
	__u32 faults;
	__u64 words[LBT_KEY_WORDS];
	char text[LBT_KEY_TEXTS][LBT_SMALL_CHUNK];
};

#define LBT_MEASURES 4	  /* values of which a count has the sum, the least and the most */
#define LBT_FROM_ENTRY 32 /* at a return, slots from here on are of the entry */
#define LBT_ROOM_VALUES 64

/*
 * What to do at a probe. Probes alike share a spec. With plain set an event has the two result
 * registers (where a call closes) or else the first six argument registers, or those that are
 * selected, as they are: values are made of them in user space (struct lbt_decoded_value).
 */
struct lbt_spec {
	__u8 plain;
	__u8 fetches;	  /* values, also of a plain spec */
	__u8 conditions;
	__u8 chunk_layout; /* enum lbt_chunk_layout; 0: none */
	__s32 sp_delta;	  /* stack pointer at entry less the one at the probe */
	__u32 text_slots; /* bit n: value n is a string or bytes */
	__u32 opaque_zero; /* 0, but loaded, so that the verifier does not know it */
	__u8 short_layout; /* of a hit whose texts are all short */
	__u8 more;	  /* fetches beyond LBT_VALUES */
	__u8 filtered;	  /* returns are sent only of calls whose entry passed */
	__u8 action;	  /* enum lbt_action */
	__u8 go;	  /* where Go keeps g: enum lbt_go; 0: calls belong to threads */
	__u8 hooked;	  /* of a uretprobe */
	__u8 keeps[LBT_KEPT]; /* 1 more than each register that the return needs as it was at */
			  /* entry, on entries and exits; 0: none */
	__u8 text_slot[LBT_CHUNKS]; /* which text is in which chunk; after the last: 0xff */
	__u8 named;	  /* of a point: its events carry the runner */
	__u8 measures[LBT_MEASURES]; /* slots of the values that the action takes */
	__u8 unsigned_measures; /* bit n: the n-th of them has no sign */
	__u8 by[LBT_KEY_WORDS]; /* slots of the words of its key; 0xff: none, or known elsewhere */
	__u8 shows_left;  /* an entry that waits is sent, too, if an exception leaves the call */
	__u8 has_room;	  /* the entry has left a room: bpf_src/aggregate.h */
	__u8 within;	  /* enum lbt_within */
	__u8 ends_lane;	  /* of a landing: of no call of the goroutine anything goes on */
	__u8 hooks;	  /* of LBT_OUTER: the return is hooked */
	__u8 loops_to_entry; /* of an entry whose return is hooked: the function jumps back to it */
	__u8 selected;	  /* of a plain spec: how many registers are selected */
	__u8 selection[LBT_VALUES]; /* which, as in struct lbt_fetch */
	__u8 jumps;	  /* the call jumps to another function: enum lbt_jumping, 0: as any that ends */
	__u16 relay;	  /* of such a jump, and of where calls return that have jumped */
	__u16 otherwise;  /* 1 more than the spec of the next probe: bpf_src/return_places.h; 0: none */
	__u32 unless;	  /* processor flags with any of which a hit does not count, */
	__u32 only;	  /* and with any of which it does; 0: in any case */
	__u32 go_goid;	  /* offset of g.goid */
	__u32 go_stack_high; /* offset of g.stack.hi */
	struct lbt_jump jump;
	struct lbt_fetch fetch[LBT_FETCHES];
	struct lbt_condition condition[LBT_CONDITIONS];
	struct lbt_text text[LBT_TEXTS];
};

/* How user space makes a value of what a plain spec has recorded, as a struct lbt_fetch would. */
struct lbt_decoded_value {
	__u8 from;	  /* which of the recorded; LBT_NO_REGISTER: 0 */
	__u8 left;	  /* shifts */
	__u8 right;
	__u8 is_signed;
	__s64 offset;
};

struct lbt_decoded_registers {
	__u32 values;	  /* 0: those recorded are the values */
	struct lbt_decoded_value value[LBT_VALUES];
};

/*
 * A call that has been entered: by frame and thread or goroutine. The probe that opened it counts
 * too, because several calls of one frame return one after the other.
 */
struct lbt_call_key {
	__u64 frame;
	__u64 thread;
	__u64 probe;	  /* of a call that has jumped, its relay */
};

struct lbt_open_call {
	__u64 time;	  /* of the entry; of a call that is left out, the life of its thread */
	__u32 spec;	  /* of the entry; of a call that is left out, LBT_LEFT_OUT */
	__u32 probe;
	__u64 faults;
	__u64 kept[LBT_KEPT]; /* what the registers of the spec held */
	__u64 values[LBT_FETCHES]; /* where the action is LBT_KEEP */
	__u64 inner;	  /* bpf_src/nesting.h: what timed calls inside of it have taken */
	__u64 around_frame; /* the one that it is inside of */
	__u64 around_probe;
	struct lbt_off_cpu off_cpu; /* of the thread at the entry; compared, of the call */
};

#define LBT_UNKNOWN_AROUND 1 /* no frame */
#define LBT_LEFT_OUT 4294967295 /* no spec */

/*
 * A probe's cookie: its position in the plan and its spec's. Where the return of a call
 * is hooked, both of its probes have the cookie of the one that opens it, with the spec of
 * the one that closes it, which is the next one in the plan. Of other probes that close calls the
 * cookie says instead how far behind the one that opens them they are.
 */
#define LBT_COOKIE_PROBE(cookie) ((__u32)(cookie))
#define LBT_COOKIE_SPEC(cookie) ((__u32)((cookie) >> 32) & 0xffff)
#define LBT_COOKIE_RETURN_SPEC(cookie) ((__u32)((cookie) >> 48))
#define LBT_COOKIE_DISTANCE(cookie) ((__u32)((cookie) >> 48))

enum lbt_go { LBT_GO_REGISTER = 1, LBT_GO_THREAD = 2 /* below the thread pointer */ };

/* Constants of a load: all of .rodata.config. The verifier removes what they switch off. */
struct lbt_config {
	__u64 pidns_device;  /* namespace of the pids, 0: the initial one */
	__u64 pidns_inode;
	__u64 cgroup;	     /* only processes in it and below are traced, by its number; 0: all */
	__u64 only_cookie;   /* cookie of all hits where use_only_cookie is set, */
	__u32 use_only_cookie; /* for kernels without cookies (before 5.15) */
	__u32 root;	     /* only this process is traced, 0: all */
	__u32 own;	     /* this process is not: lbtrace itself; 0: it is */
	__u32 follow;	     /* and the processes it forks */
	__u32 generic;	     /* some spec is not plain */
	__u32 selecting;     /* some spec selects registers */
	__u32 chunk_layouts; /* bits of enum lbt_chunk_layout that specs have */
	__u32 wide;	     /* some spec has more than six values */
	__u32 compared_texts; /* some condition is of a text */
	__u32 related;	     /* some fetch or condition refers to another slot */
	__u32 computing;     /* some fetch has an operation */
	__u32 filtered;	     /* some spec has conditions */
	__u32 from_program;  /* some condition asks whether the program made the call */
	__u32 deferred;	     /* some action is LBT_KEEP */
	__u32 tells_open;    /* such calls are remembered only to tell how many did not return */
	__u32 aggregating;   /* bits of the actions from LBT_AGGREGATE on that specs have */
	__u32 counting;	     /* hits are counted by probe and process, and nothing else is done */
	__u32 keeping;	     /* some spec keeps a register */
	__u32 jumps;	     /* some jump is computed */
	__u32 hooked;	     /* the returns of some calls are seen by uretprobes */
	__u32 never;	     /* 0 */
	__u32 may_fault;     /* programs are sleepable: reading may wait for a page (6.1) */
	__u32 typed_task;    /* bpf_get_current_task_btf works (5.11) */
	__u32 go;	     /* some spec is of Go */
	__u32 stacks;	     /* threads may run on other stacks than their own */
	__u32 finds_mappings; /* bpf_find_vma works (5.17) */
	__u32 within;	     /* some spec is LBT_OUTER */
	__u32 backups;	     /* programs of tracepoints have some */
	__u32 refusals;	     /* system calls that are refused are seen */
	__u32 loops_to_entry; /* some spec is of a function that jumps back to its entry */
	__u32 relays;	     /* some spec has a relay, or is LBT_UNCOMPARED */
	__u32 places;	     /* of some calls that jump away it is asked where they return */
	__u32 learns_places; /* also if that was not foreseen (5.17): bpf_src/return_places.h */
	__u32 rooms;	     /* keys of what is aggregated are values */
	__u32 by_pid;	     /* the process is in these */
	__u32 key_texts;     /* texts in these */
	__u32 measures;	     /* values that are aggregated */
	__u32 extremes;	     /* also the least and the most of them */
	__u32 stack_depth;   /* frames of each call's stack that are sent with it, 0: none */
	__u32 walks_stacks;  /* some program walks stacks */
	__u32 unwind_tables; /* callers are found by tables where there are some */
	__u32 nesting;	     /* of calls that are timed, or shown if left, it is known what is below them */
	__u32 times_inner;   /* of the former: and how long that took */
	__u32 shows_left;    /* calls that wait for a condition on their return are shown if left */
	__u32 off_cpu;	     /* it is asked how long threads do not run */
	__u32 compares_off_cpu; /* some condition is on how long calls were blocked or runnable */
	__u32 off_cpu_probe; /* of the points at which they were blocked, */
	__u64 off_cpu_bound; /* for so long at least, ns */
};

#define LBT_OFF_CPU_IN_KERNEL 2 /* lbt_config.off_cpu, where functions of the kernel are traced, too */
#define LBT_KERNEL_STACK (1 << 17) /* more than a task has in the kernel: THREAD_SIZE */

enum lbt_counter {
	LBT_RING_FULL, /* by kind */
	LBT_STRING_FAULT = LBT_KINDS,
	LBT_UNCOUNTED, /* hits for which the map of an action had no room */
	LBT_CHILDREN, /* processes that followed ones have forked */
	LBT_BY_BACKUP, /* handled by a backup program */
	LBT_TOO_DEEP, /* calls whose return the kernel did not hook, because it has too many */
	LBT_TAIL_UNCOMPARED, /* calls with conditions on returns, which jumped where none is seen */
	LBT_LEFT_UNCOMPARED, /* such calls that were left by an exception or longjmp */
	LBT_STACKS_LOST, /* stacks for which there was no memory, or the ring had no room */
	LBT_UNCOMPUTED, /* operations without a result: divisions by 0, shifts too far */
	LBT_IN_INTERRUPT, /* calls of the kernel's functions that interrupts made in traced threads */
	LBT_SWITCH_MISSED, /* a thread left a processor, or came back to one, and no program ran */
	LBT_UNSPLIT, /* calls that such a condition left out, as it is not known of them */
	LBT_COUNTERS,
};

#endif
