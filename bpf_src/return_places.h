/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Where calls return that jump to what is not watched. Relays are there if the plan has found the
 * place, or calls have been seen to return there (lbtrace/session/learned_places.py). Where none is,
 * the jump is a hit of the next probe. What is written here is read by lbtrace/bpf/return_places.py.
 */
#ifndef RETURN_PLACES_H
#define RETURN_PLACES_H

#include "registers.h"
#include "state.h"
#ifndef LBT_EARLY
#include "stack/mapping.h"
#endif

/* An address in the file that has jumped, where there is no inode, or else the offset in another. */
struct return_place {
	__u64 address;
	__u64 inode;
	__u32 device;	/* as in the kernel: major << 20 | minor */
	__u32 relay;	/* of the calls */
};

/* Where a process has mapped the file of a place, and how many calls have jumped that return there. */
struct place_mapping {
	__u64 start;
	__u64 end;
	__u64 pid;
	__u64 jumps;
};

/* Whether relays are at a place; those that are not here are not decided yet. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct return_place);
	__type(value, __u8);
	__uint(max_entries, 1);
} return_places SEC(".maps");

/* The addresses in their file of the jumps, by probe. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} jump_addresses SEC(".maps");

/* Places that are to be decided. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct return_place);
	__type(value, struct place_mapping);
	__uint(max_entries, 1);
} met_places SEC(".maps");

struct met_place {
	struct return_place place;
	struct place_mapping mapping;
};

#ifndef LBT_EARLY
/* Makes an address one in its file, if that is mapped as code. */
static long take_place(struct task_struct *task, struct vm_area_struct *vma, void *into)
{
	struct met_place *met = into;
	struct inode *inode;

	if (!vma->vm_file || !(vma->vm_flags & LBT_VM_EXEC))
		return 0;
	inode = shown_inode(vma->vm_file);
	met->mapping.start = vma->vm_start;
	met->mapping.end = vma->vm_end;
	met->place.address += (vma->vm_pgoff << 12) - vma->vm_start;
	met->place.inode = BPF_CORE_READ(inode, i_ino);
	met->place.device = BPF_CORE_READ(inode, i_sb, s_dev);
	return 0;
}
#endif

/* Whether the call that jumps here will be seen to return. */
static __noinline bool returns_to_relay(struct pt_regs *ctx, const struct hit *at,
					const struct lbt_spec *spec)
{
	const __u64 caller = caller_of(ctx, at->frame + spec->sp_delta);
	struct met_place met = { .place.relay = spec->relay, .mapping.jumps = 1 };
	__u64 *address = bpf_map_lookup_elem(&jump_addresses, &at->probe);
	__u8 *known;

	if (!address)
		return false;
	met.place.address = caller - INSTRUCTION_POINTER(ctx) + *address;
	known = bpf_map_lookup_elem(&return_places, &met.place);
	if (known)
		return *known;
#ifndef LBT_EARLY
	struct place_mapping *before;

	if (!config.learns_places)
		return false;
	met.place.address = caller;
	if (bpf_find_vma(bpf_get_current_task_btf(), caller, take_place, &met, 0) ||
	    !met.place.inode)
		return false;
	known = bpf_map_lookup_elem(&return_places, &met.place);
	if (known)
		return *known;
	before = bpf_map_lookup_elem(&met_places, &met.place);
	if (before) {
		ADD(&before->jumps, 1);
		return false;
	}
	met.mapping.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_map_update_elem(&met_places, &met.place, &met.mapping, BPF_NOEXIST);
#endif
	return false;
}

#endif
