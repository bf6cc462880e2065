/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Looks up a mapping where the lock for it cannot be had: another thread changes the mappings, or
 * interrupts are off, when the kernel lets a program have that lock once only (bpf_find_vma() in
 * kernel/bpf/task_iter.c), as where threads are switched. Nodes of the tree (6.1) are freed after a
 * grace period of RCU, in which programs are: lib/maple_tree.c.
 */
#ifndef STACK_TREE_H
#define STACK_TREE_H

#define LBT_EBUSY 16
#define LBT_ENOENT 2
#define LBT_TREE_HEIGHT 8	/* 5 hold 10 million mappings */
#define LBT_LEAF 1		/* enum maple_type, as LBT_ARANGE */
#define LBT_ARANGE 3
#define LBT_PIVOTS 15

/*
 * Which slot of a node holds an address. Without branches, which the verifier would follow: compilers
 * make some where they see the whole of a comparison. That of 7.2 gave up.
 */
static __always_inline __u64 find_slot(struct stack_walk *walk, __u64 address)
{
	__u64 slot = 0, goes_on = 1, pivot, negative, beyond;

	for (int i = 0; i < LBT_PIVOTS; i++) {
		pivot = walk->words[i];
		negative = -pivot;
		beyond = (pivot >> 1) - (address >> 1);
		barrier_var(negative);
		barrier_var(beyond);
		/* one of 0 is behind the last one; the first may be 0 */
		if (i)
			goes_on &= (pivot | negative) >> 63;
		goes_on &= beyond >> 63;
		barrier_var(goes_on);
		slot += goes_on;
	}
	return slot;
}

/* As find_file() does, without the lock: what is found is the mapping, or was until just now. */
static __noinline long find_in_tree(struct stack_walk *walk, struct stack_mapping *found)
{
	struct mm_struct *memory = bpf_get_current_task_btf()->mm;
	struct vm_area_struct *vma;
	struct inode *inode;
	struct file *file;
	__u64 entry, node, kind, pivots, slots, many;

	if (!bpf_core_field_exists(memory->mm_mt) || !memory || !found)
		return -LBT_EBUSY;
	walk->window = 1; /* its words are used here */
	entry = (__u64)BPF_CORE_READ(memory, mm_mt.ma_root);
	if ((entry & 3) != 2)
		return -LBT_EBUSY; /* a tree of one mapping, which no process has */
	for (int level = 0; level < LBT_TREE_HEIGHT; level++) {
		kind = entry >> 3 & 15;
		node = entry & ~0xffULL;
		if (kind == LBT_ARANGE) {
			pivots = bpf_core_field_offset(struct maple_node, ma64.pivot);
			slots = bpf_core_field_offset(struct maple_node, ma64.slot);
			many = bpf_core_field_size(struct maple_arange_64, pivot);
		} else {
			pivots = bpf_core_field_offset(struct maple_node, mr64.pivot);
			slots = bpf_core_field_offset(struct maple_node, mr64.slot);
			many = bpf_core_field_size(struct maple_range_64, pivot);
		}
		__builtin_memset(walk->words, 0, 8 * LBT_PIVOTS);
		if (bpf_probe_read_kernel(walk->words, many & 127, (void *)node + pivots))
			return -LBT_EBUSY;
		slots += 8 * find_slot(walk, walk->at);
		if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)node + slots))
			return -LBT_EBUSY;
		if (kind <= LBT_LEAF)
			break;
	}
	if (!entry)
		return -LBT_ENOENT;
	vma = (void *)entry;
	found->start = BPF_CORE_READ(vma, vm_start);
	found->end = BPF_CORE_READ(vma, vm_end);
	found->offset = BPF_CORE_READ(vma, vm_pgoff) << 12;
	found->executable = BPF_CORE_READ(vma, vm_flags) & LBT_VM_EXEC;
	file = BPF_CORE_READ(vma, vm_file);
	inode = file ? shown_inode(file) : NULL;
	found->inode = inode ? BPF_CORE_READ(inode, i_ino) : 0;
	found->device = inode ? BPF_CORE_READ(inode, i_sb, s_dev) : 0;
	if (walk->at >= found->start && walk->at < found->end)
		return 0;
	found->end = 0; /* it is being changed */
	return -LBT_EBUSY;
}

#endif
