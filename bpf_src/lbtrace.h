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
#define LBT_DEREFS 4	 /* loads on the way to a value */
#define LBT_CONDITIONS 8 /* comparisons of a probe */
#define LBT_COMM 16	 /* TASK_COMM_LEN, include/linux/sched.h */

enum lbt_kind {
	LBT_ENTRY = 1,
	LBT_RETURN = 2,
};

/*
 * One hit of a probe. comm stays last: the gather function cuts it off. Only
 * entries have it.
 */
struct lbt_event {
	__u64 time;	  /* CLOCK_MONOTONIC, ns */
	__u64 frame;	  /* stack pointer at function entry */
	__u64 goroutine;  /* 0 outside Go */
	__u32 probe;	  /* position in the plan */
	__u32 pid;
	__u32 tid;
	__u16 kind;	  /* enum lbt_kind */
	__u16 faults;	  /* bit n: value n could not be read */
	__u32 lost;	  /* events this thread lost since its last one */
	__u32 blob;	  /* bytes behind the event */
	__u64 values[LBT_VALUES];
	char comm[LBT_COMM];
};

enum lbt_base {
	LBT_REGISTER = 0,
	LBT_STACK = 1,	  /* relative to the stack pointer at function entry */
	LBT_CONSTANT = 2,
};

enum lbt_read {
	LBT_VALUE = 0,	  /* what the steps so far gave */
	LBT_INTEGER = 1,  /* size bytes in memory there */
	LBT_STRING = 2,	  /* a NUL-terminated string there */
	LBT_BYTES = 3,	  /* as many bytes there as value length_from says */
};

/*
 * How to get one value: lbtrace.model.Fetch. The bytes of a string go behind
 * the event; its value is their number in the low half and, in the high half,
 * the true length, or 0xffffffff where the string goes on.
 */
struct lbt_fetch {
	__u8 base;	  /* enum lbt_base */
	__u8 reg;	  /* position in the machine's list of registers */
	__u8 read;	  /* enum lbt_read */
	__u8 size;	  /* of an integer in memory: 1, 2, 4, 8 */
	__u8 is_signed;
	__u8 derefs;
	__u8 length_from;
	__u8 pad;
	__u32 limit;	  /* of strings and bytes */
	__s32 deref[LBT_DEREFS];
	__u32 pad2;
	__s64 offset;
};

enum lbt_operator {
	LBT_EQ,
	LBT_NE,
	LBT_LT,
	LBT_LE,
	LBT_GT,
	LBT_GE,
};

struct lbt_condition {
	__u8 slot;
	__u8 op;	  /* enum lbt_operator */
	__u8 is_signed;
	__u8 group;	  /* alternatives share a group; groups are ordered */
	__u32 pad;
	__u64 operand;
};

/*
 * What to send from a probe. Probes alike share a spec. With plain set the
 * values are the first six argument registers (entry) or the two result
 * registers (return), as they are.
 */
struct lbt_spec {
	__u8 plain;
	__u8 fetches;
	__u8 conditions;
	__u8 large;	  /* blob room: 0 small, 1 large */
	__s32 sp_delta;	  /* stack pointer at entry less the one at the probe */
	struct lbt_fetch fetch[LBT_VALUES];
	struct lbt_condition condition[LBT_CONDITIONS];
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
 * Constants of a load: the whole of .rodata. The verifier removes what they
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
	__u32 blobs;	     /* some spec fetches strings or bytes */
	__u32 typed_task;    /* bpf_get_current_task_btf works (5.11) */
	__u32 go_g;	     /* where Go keeps g: enum lbt_go, 0: no Go program */
	__u32 go_goid;	     /* offset of g.goid */
	__u32 go_stack_high; /* offset of g.stack.hi */
};

enum lbt_counter {
	LBT_RING_FULL_ENTRY,
	LBT_RING_FULL_RETURN,
	LBT_STRING_FAULT,
	LBT_BLOB_TOO_LONG,
	LBT_COUNTERS,
};

#endif
