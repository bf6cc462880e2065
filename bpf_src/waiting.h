/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Reading memory of the process whose page may not be loaded yet. */
#ifndef WAITING_H
#define WAITING_H

#include "state.h"

#ifdef LBT_ATOMIC

static __always_inline bool load_page(__u64 address, __u64 *room)
{
	return false;
}

static __always_inline int load_pages(__u64 from, __u32 size)
{
	return 0;
}

#else

/* kernel/bpf/task_iter.c, from 6.7 on. The iterator holds the lock of the mappings; -EBUSY where
 * another thread is about to change them. */
struct bpf_iter_task_vma {
	__u64 opaque[1];
} __attribute__((aligned(8)));

extern int bpf_iter_task_vma_new(struct bpf_iter_task_vma *it, struct task_struct *task,
				 __u64 address) __ksym __weak;
extern struct vm_area_struct *bpf_iter_task_vma_next(struct bpf_iter_task_vma *it) __ksym __weak;
extern void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma *it) __ksym __weak;

/*
 * Waits for the page at an address, if there is one, and that may be done; `room` is for what is read.
 * One that a process loads itself (userfaultfd(2)) would be waited for forever, were the thread that
 * waits the one that loads it. Before 6.7 that is not asked.
 */
static __always_inline bool load_page(__u64 address, __u64 *room)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *area;
	bool may = true;

	if (bpf_ksym_exists(bpf_iter_task_vma_new)) {
		/* after an error there is no area */
		bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), address);
		area = bpf_iter_task_vma_next(&it);
		may = area && area->vm_start <= address;
		/* not a plain load, whose judgement costs the verifier 1 ms at each visit */
		if (may && bpf_core_field_exists(area->vm_userfaultfd_ctx.ctx))
			may = !bpf_probe_read_kernel(room, sizeof(*room),
						     &area->vm_userfaultfd_ctx.ctx) &&
			      !*room;
		bpf_iter_task_vma_destroy(&it);
	}
	return may && !bpf_copy_from_user(room, 1, (const void *)address);
}

/*
 * The same for some bytes, which lie on at most two pages: whether they can be read now. Its callers
 * share the stack, of which a function that they call with numbers only takes little.
 */
__noinline int load_pages(__u64 from, __u32 size)
{
	__u64 room;

	if (!config.may_fault)
		return 0;
	return load_page(from, &room) && load_page(from + size - 1, &room);
}

#endif

#endif
