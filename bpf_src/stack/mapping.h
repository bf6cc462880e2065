/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* In which file an address of the current process is, and what a walk of its stack reads. */
#ifndef STACK_MAPPING_H
#define STACK_MAPPING_H

#include "registers.h"

#define LBT_CACHED_MAPPINGS 4
#define LBT_WINDOW 512 /* bytes of the stack that are read at once */
#define LBT_VM_EXEC 4	/* include/linux/mm.h */

struct stack_mapping {
	__u64 start;
	__u64 end;
	__u64 offset;	/* of start in the file */
	__u64 inode;	/* 0: of no file */
	__u32 device;	/* as in the kernel: major << 20 | minor */
	__u32 executable;
};

struct stack_walk {
	__u32 depth;	/* frames */
	__u32 end;	/* enum lbt_stack_end */
	__u64 hash;	/* of the frames' files and offsets */
	struct lbt_stack_frame frames[LBT_STACK_FRAMES]; /* the innermost first */
	/* the walk's own: */
	__u64 ip;
	__u64 sp;
	__u64 bp;
	__u32 place;	/* enum lbt_stack_place */
	__u32 exact;	/* ip is of the instruction that runs, not behind a call */
	__u32 guessed;	/* LBT_FRAME_GUESSED, or 0 */
	__u32 busy;	/* the mappings are being changed */
	__u64 window;	/* address of the part of the stack that has been read */
	__u64 words[LBT_WINDOW / 8];
	__u32 oldest;	/* of mappings */
	struct stack_mapping mappings[LBT_CACHED_MAPPINGS];
	struct pt_regs registers;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, LBT_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct stack_walk);
} stack_walks SEC(".maps");

/* A mapping that was found once, for when the kernel cannot look it up: it only tries the lock. */
struct known_page {
	__u64 memory; /* struct mm_struct */
	__u64 page;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct known_page);
	__type(value, struct stack_mapping);
	__uint(max_entries, 8192);
} known_mappings SEC(".maps");

static long take_file(struct task_struct *task, struct vm_area_struct *vma, void *found)
{
	struct stack_mapping *mapping = found;

	mapping->start = vma->vm_start;
	mapping->end = vma->vm_end;
	mapping->offset = vma->vm_pgoff << 12;
	mapping->executable = vma->vm_flags & LBT_VM_EXEC;
	if (vma->vm_file) {
		mapping->inode = vma->vm_file->f_inode->i_ino;
		mapping->device = vma->vm_file->f_inode->i_sb->s_dev;
	}
	return 0;
}

static __always_inline void forget_mappings(struct stack_walk *walk)
{
	for (int i = 0; i < LBT_CACHED_MAPPINGS; i++)
		walk->mappings[i].end = 0;
	walk->busy = 0;
}

#define LBT_EBUSY 16

/* Asks the kernel; false where nothing is mapped, or that cannot be known now. */
static __noinline bool find_file(struct stack_walk *walk, __u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct known_page page = { .memory = (__u64)task->mm, .page = address >> 12 };
	struct stack_mapping found = {}, *known;
	const long error = bpf_find_vma(task, address, take_file, &found, 0);
	__u32 place = walk->oldest++ & (LBT_CACHED_MAPPINGS - 1);

	known = bpf_map_lookup_elem(&known_mappings, &page);
	if (error == -LBT_EBUSY) {
		walk->busy = !known;
		if (!known)
			return false;
		walk->mappings[place] = *known;
		return true;
	}
	if (error)
		return false;
	if (!known || known->start != found.start || known->inode != found.inode)
		bpf_map_update_elem(&known_mappings, &page, &found, 0);
	walk->mappings[place] = found;
	return true;
}

/* The mapping of an address; of one stack's frames most are in few mappings. */
static __always_inline struct stack_mapping *mapping_of(struct stack_walk *walk, __u64 address)
{
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < LBT_CACHED_MAPPINGS; i++)
			if (address >= walk->mappings[i].start && address < walk->mappings[i].end)
				return &walk->mappings[i];
		if (turn || !find_file(walk, address))
			break;
	}
	return NULL;
}

/* Reads a word of the stack, most times from what was read before. */
static __always_inline long read_stack(struct stack_walk *walk, __u64 address, __u64 *into)
{
	__u64 place = (address - walk->window) >> 3;

	if ((address - walk->window) & 7 || place >= LBT_WINDOW / 8) {
		if (bpf_probe_read_user(walk->words, LBT_WINDOW, (void *)address)) {
			walk->window = 1; /* part of it may be overwritten */
			return bpf_probe_read_user(into, sizeof(*into), (void *)address);
		}
		walk->window = address;
		place = 0;
	}
	barrier_var(place); /* keeps the bound, which the verifier needs */
	*into = walk->words[place & (LBT_WINDOW / 8 - 1)];
	return 0;
}

#endif
