/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Tables by which callers are found without frame pointers. User space makes them of .eh_frame
 * (lbtrace/native/unwind_rows.h) and files them by file; rows and rules are shared by all processes.
 */
#ifndef STACK_TABLE_H
#define STACK_TABLE_H

#include "stack/mapping.h"

#define LBT_MMAPABLE 1024 /* BPF_F_MMAPABLE, include/uapi/linux/bpf.h */
#define LBT_CHUNK 131072  /* pairs of words: 1 MiB */
#define LBT_RULES 16384

enum lbt_rule_kind {
	LBT_RULE_NONE,	   /* no function is described there */
	LBT_RULE_END,	   /* nothing has called it */
	LBT_RULE_SP,	   /* the frame begins at the stack pointer plus an offset; */
	LBT_RULE_BP,	   /* or the frame pointer, */
	LBT_RULE_REGISTER, /* or another register; */
	LBT_RULE_PLT,	   /* 8 bytes further from a byte of a stub on; */
	LBT_RULE_AT_SP,	   /* at what memory has there, plus a second offset */
	LBT_RULE_AT_BP,
	LBT_RULE_SIGNAL, /* a signal: where ip, sp and bp are in memory */
	LBT_RULE_UNKNOWN,
};

enum lbt_bp_kind {
	LBT_BP_SAME,
	LBT_BP_SAVED, /* at an offset from where the frame begins */
	LBT_BP_AT_BP,
	LBT_BP_UNDEFINED,
};

struct stack_rule {
	__u8 kind;
	__u8 bp_kind;
	__u8 reg; /* in DWARF's numbers */
	__u8 pad;
	__s32 offset;
	__s32 second;
	__s32 bp_offset;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, LBT_MMAPABLE);
	__type(key, __u32);
	__type(value, struct stack_rule);
	__uint(max_entries, LBT_RULES);
} stack_rules SEC(".maps");

/* The words of all tables, in chunks that user space adds. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, 64);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(map_flags, LBT_MMAPABLE);
		__type(key, __u32);
		__type(value, __u64);
		__uint(max_entries, LBT_CHUNK);
	});
} stack_rows SEC(".maps");

static __always_inline __u32 word_of(struct stack_walk *walk, void *chunk, __u32 number)
{
	__u64 *both;

	walk->key = (number >> 1) & (LBT_CHUNK - 1);
	both = bpf_map_lookup_elem(chunk, &walk->key);
	return both ? *both >> ((number & 1) * 32) : 0;
}

static __always_inline void *chunk_of(struct stack_walk *walk, __u32 number)
{
	walk->key = number / (2 * LBT_CHUNK);
	return bpf_map_lookup_elem(&stack_rows, &walk->key);
}

/*
 * Notes in the walk the rule that holds at walk->at, an offset in the file of walk->in. The search has
 * no branches that the verifier would follow, and keeps little on the stack, which has no room.
 */
static __noinline int find_rule(struct stack_walk *walk)
{
	const struct stack_mapping *in = &walk->mappings[walk->in & (LBT_CACHED_MAPPINGS - 1)];
	__u32 first, count, half, page = (walk->at >> 12) - in->table.first_page;
	void *chunk;
	__u64 past;

	walk->rule = 0;
	if (page >= in->table.pages)
		return 0;
	first = in->table.position + 2 * page;
	chunk = chunk_of(walk, first);
	if (!chunk)
		return 0;
	count = word_of(walk, chunk, first + 1);
	first = word_of(walk, chunk, first);
	chunk = chunk_of(walk, first);
	if (!chunk)
		return 0;
	for (int i = 0; i < 12 && count > 1; i++) {
		half = count / 2;
		past = (walk->at & 0xfff) - (word_of(walk, chunk, first + half) & 0xfff);
		past >>= 63; /* 1 where the row is behind */
		barrier_var(past);
		first += half & (__u32)(past - 1);
		count -= half;
	}
	walk->rule = word_of(walk, chunk, first) >> 16;
	return 0;
}

#if defined(__TARGET_ARCH_x86)

/* A register by its number in DWARF: System V ABI for AMD64, figure 3.36. */
static __always_inline __u64 dwarf_register(const struct pt_regs *r, __u8 number)
{
	switch (number) {
	case 0: return r->ax;
	case 1: return r->dx;
	case 2: return r->cx;
	case 3: return r->bx;
	case 4: return r->si;
	case 5: return r->di;
	case 8: return r->r8;
	case 9: return r->r9;
	case 10: return r->r10;
	case 11: return r->r11;
	case 12: return r->r12;
	case 13: return r->r13;
	case 14: return r->r14;
	case 15: return r->r15;
	}
	return 0;
}

/* The caller's registers by a rule; why there are none. */
static __noinline __u32 leave_by_rule(struct stack_walk *walk, const struct stack_rule *rule)
{
	const bool innermost = walk->depth == walk->above + 1;
	const __u32 kind = rule->kind;
	__u64 frame, there;

	if (kind == LBT_RULE_END)
		return LBT_END_OUTERMOST;
	if (kind == LBT_RULE_SIGNAL) {
		frame = walk->sp;
		if (bpf_probe_read_user(&walk->bp, 8, (void *)frame + rule->bp_offset) ||
		    bpf_probe_read_user(&walk->sp, 8, (void *)frame + rule->second) ||
		    bpf_probe_read_user(&walk->ip, 8, (void *)frame + rule->offset))
			return LBT_END_UNREADABLE;
		walk->exact = 1;
		return 0;
	}
	if (kind == LBT_RULE_SP || kind == LBT_RULE_AT_SP || kind == LBT_RULE_PLT)
		frame = walk->sp;
	else if (kind == LBT_RULE_BP || kind == LBT_RULE_AT_BP)
		frame = walk->bp;
	else if (kind == LBT_RULE_REGISTER && innermost)
		frame = dwarf_register(&walk->registers, rule->reg);
	else
		return LBT_END_NO_TABLE;
	frame += rule->offset;
	if (kind == LBT_RULE_PLT && (walk->ip & 15) >= rule->second)
		frame += 8;
	if (kind == LBT_RULE_AT_SP || kind == LBT_RULE_AT_BP) {
		if (read_stack(walk, frame, &there))
			return LBT_END_UNREADABLE;
		frame = there + rule->second;
	}
	if (frame <= walk->sp) /* stacks grow down: it would go round */
		return LBT_END_NO_TABLE;
	/* in ascending order: both may be in what is read at once */
	if (rule->bp_kind == LBT_BP_SAVED) {
		if (read_stack(walk, frame + rule->bp_offset, &walk->bp))
			return LBT_END_UNREADABLE;
	} else if (rule->bp_kind == LBT_BP_AT_BP) {
		if (read_stack(walk, walk->bp + rule->bp_offset, &walk->bp))
			return LBT_END_UNREADABLE;
	} else if (rule->bp_kind == LBT_BP_UNDEFINED) {
		walk->bp = 0;
	}
	if (read_stack(walk, frame - 8, &walk->ip))
		return LBT_END_UNREADABLE;
	walk->sp = frame;
	return 0;
}

#else

static __always_inline __u32 leave_by_rule(struct stack_walk *walk, const struct stack_rule *rule)
{
	return LBT_END_NO_TABLE; /* tables are made for x86-64 only */
}

#endif

#endif
