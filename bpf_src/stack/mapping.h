/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* In which file an address of the current process is, and what a walk of its stack reads. */
#ifndef STACK_MAPPING_H
#define STACK_MAPPING_H

#include "registers.h"

#define LBT_CACHED_MAPPINGS 4
#define LBT_WINDOW 512 /* bytes of the stack that are read at once */
#define LBT_VM_EXEC 4	/* include/linux/mm.h */

/* How callers are found in a file. */
struct stack_table {
	__u32 how;	/* enum lbt_stack_how */
	__u32 position; /* of its words */
	__u32 first_page;
	__u32 pages;
};

enum lbt_stack_how {
	LBT_HOW_UNKNOWN, /* user space does not know of the file yet */
	LBT_BY_TABLE,
	LBT_BY_POINTER,	 /* what the table leaves out has frame pointers: Go */
	LBT_BY_GUESS,	 /* there is no table: there may be frame pointers */
};

struct stack_mapping {
	__u64 start;
	__u64 end;
	__u64 offset;	/* of start in the file */
	__u64 inode;	/* 0: of no file */
	__u32 device;	/* as in the kernel: major << 20 | minor */
	__u32 executable;
	struct stack_table table;
};

/* A file as a mapping names it. */
struct stack_file {
	__u64 inode;
	__u64 device;
};

/* Files that stacks have met and user space does not know of, and where one process has mapped them. */
struct met_file {
	__u64 start;
	__u64 end;
	__u32 pid; /* in the initial namespace */
	__u32 pad;
};

/* A mapping that was found once, for when the kernel cannot look it up: it only tries the lock. */
struct known_page {
	__u64 memory; /* struct mm_struct */
	__u64 page;
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
	__u32 guessed;	/* LBT_FRAME_GUESSED, LBT_FRAME_KERNEL, or 0 */
	__u32 busy;	/* the mappings are being changed */
	__u64 trampoline; /* where hooked calls return to, 0: none is hooked */
	__u64 pending;	/* struct return_instance of the next one */
	__u64 window;	/* address of the part of the stack that has been read */
	__u64 words[LBT_WINDOW / 8];
	__u32 oldest;	/* of mappings */
	struct stack_mapping mappings[LBT_CACHED_MAPPINGS];
	struct pt_regs registers;
	__u32 limit;	/* of depth */
	__u32 outside;	/* the hit is in no function of the program */
	__u32 above;	/* frames of the kernel, which come first */
	__u32 in;	/* which of the mappings the walk is in */
	__u32 rule;	/* that holds there, 0: none */
	__u64 at;	/* offset in the file */
	/* here, because the program's stack has no room for them: */
	struct known_page page;
	struct stack_file file;
	struct met_file met;
	__u32 key;
#ifdef LBT_ATOMIC
	__u32 users;	/* programs on this CPU that want it */
	__u32 kernel_depth;
	__u64 kernel_exact; /* where the hit is, 0: behind a call */
	__u64 kernel[LBT_STACK_FRAMES];
#endif
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct stack_file);
	__type(value, struct stack_table);
	__uint(max_entries, 8192);
} stack_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct stack_file);
	__type(value, struct met_file);
	__uint(max_entries, 1024);
} met_files SEC(".maps");

#ifdef LBT_ATOMIC

/* These programs are not preempted, and some run where no memory may be allocated. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct stack_walk);
	__uint(max_entries, 1);
} cpu_walks SEC(".maps");

static __always_inline struct stack_walk *walk_of_cpu(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&cpu_walks, &only);
}

/* The memory for walks; NULL where an interrupt came while another program was using it. */
static __always_inline struct stack_walk *find_walk(void)
{
	struct stack_walk *walk = walk_of_cpu();

	return walk && walk->users == 1 ? walk : NULL;
}

#else

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, LBT_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct stack_walk);
} stack_walks SEC(".maps");

/* The memory for walks of the current thread; NULL where there is none. */
static __always_inline struct stack_walk *find_walk(void)
{
	return bpf_task_storage_get(&stack_walks, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

#endif

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct known_page);
	__type(value, struct stack_mapping);
	__uint(max_entries, 8192);
} known_mappings SEC(".maps");

/* FMODE_BACKING (include/linux/fs.h): the one or the other, as kernels from 6.12 to 6.14 moved it. */
#define LBT_BACKING (1 << 24 | 1 << 25)
#define LBT_OVERLAY 0x794c7630 /* include/uapi/linux/magic.h: OVERLAYFS_SUPER_MAGIC, */
#define LBT_FUSE 0x65735546    /* FUSE_SUPER_MAGIC */

/*
 * The file that /proc/PID/maps and perf events name (6.7: file_user_inode()): where an overlay lets the
 * mapping be of a file below, as in containers, that of the overlay. As the bit may mean something
 * else, what is found must be of such a file system.
 */
static __always_inline struct inode *shown_inode(struct file *file)
{
	struct backing_file *backing = (void *)file;
	struct inode *inode;
	unsigned long magic;

	if (bpf_core_field_exists(backing->user_path) &&
	    BPF_CORE_READ(file, f_mode) & LBT_BACKING) {
		inode = BPF_CORE_READ(backing, user_path.dentry, d_inode);
		magic = BPF_CORE_READ(inode, i_sb, s_magic);
		if (magic == LBT_OVERLAY || magic == LBT_FUSE)
			return inode;
	}
	return BPF_CORE_READ(file, f_inode);
}

static long take_file(struct task_struct *task, struct vm_area_struct *vma, void *into)
{
	struct stack_mapping *mapping = *(struct stack_mapping **)into;

	mapping->start = vma->vm_start;
	mapping->end = vma->vm_end;
	mapping->offset = vma->vm_pgoff << 12;
	mapping->executable = vma->vm_flags & LBT_VM_EXEC;
	mapping->inode = 0;
	mapping->device = 0;
	if (vma->vm_file) {
		struct inode *inode = shown_inode(vma->vm_file);

		mapping->inode = BPF_CORE_READ(inode, i_ino);
		mapping->device = BPF_CORE_READ(inode, i_sb, s_dev);
	}
	return 0;
}

static __always_inline void forget_mappings(struct stack_walk *walk)
{
	for (int i = 0; i < LBT_CACHED_MAPPINGS; i++)
		walk->mappings[i].end = 0;
	walk->busy = 0;
}

#include "stack/tree.h"

/* Finds the table of a mapping's file, or lets user space know that it is wanted. */
static __always_inline void find_table(struct stack_walk *walk, struct stack_mapping *mapping)
{
	struct stack_table *table;

	mapping->table = (struct stack_table){ .how = LBT_BY_GUESS };
	if (!mapping->inode || !config.unwind_tables)
		return;
	walk->file.inode = mapping->inode;
	walk->file.device = mapping->device;
	table = bpf_map_lookup_elem(&stack_tables, &walk->file);
	if (table) {
		mapping->table = *table;
		return;
	}
	mapping->table.how = LBT_HOW_UNKNOWN;
	walk->met.start = mapping->start;
	walk->met.end = mapping->end;
	walk->met.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_map_update_elem(&met_files, &walk->file, &walk->met, BPF_NOEXIST);
}

/* Asks the kernel which mapping holds walk->at; false where nothing is mapped, or that is not known. */
static __always_inline bool find_file(struct stack_walk *walk)
{
	struct stack_mapping *found, *known;
	long error;

	walk->in = walk->oldest & (LBT_CACHED_MAPPINGS - 1);
	walk->oldest++;
	found = &walk->mappings[walk->in & (LBT_CACHED_MAPPINGS - 1)];
	error = bpf_find_vma(bpf_get_current_task_btf(), walk->at, take_file, &found, 0);
	if (error == -LBT_EBUSY)
		error = find_in_tree(walk, found);
	walk->page.memory = (__u64)bpf_get_current_task_btf()->mm;
	walk->page.page = walk->at >> 12;
	known = bpf_map_lookup_elem(&known_mappings, &walk->page);
	if (error == -LBT_EBUSY) {
		walk->busy = !known;
		if (!known)
			return false;
		*found = *known;
	} else if (error) {
		return false;
	} else if (!known || known->start != found->start || known->inode != found->inode) {
		bpf_map_update_elem(&known_mappings, &walk->page, found, 0);
	}
	find_table(walk, found);
	return true;
}

/* Notes which mapping holds walk->at; of one stack's frames most are in few mappings. */
static __always_inline bool enter_mapping(struct stack_walk *walk)
{
#define IS_IN(number)                                                                              \
	if (walk->at >= walk->mappings[number].start && walk->at < walk->mappings[number].end) {   \
		walk->in = number;                                                                 \
		return true;                                                                       \
	}
	IS_IN(0)
	IS_IN(1)
	IS_IN(2)
	IS_IN(3)
#undef IS_IN
	return find_file(walk);
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
