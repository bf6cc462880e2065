/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Tracepoints of the kernel: lbtrace/probes/tracepoint.py. */
#include "hit.h"
#include "stack/walk.h"

/*
 * The address of a record. Only as a number, and no longer as the context, may it be moved by an offset
 * that the verifier does not know. A function of its own: what calls it has little room on the stack.
 */
static __noinline __u64 address_of(void *record)
{
	__u64 address;

	bpf_probe_read_kernel(&address, sizeof(address), &record);
	return address;
}

/* The context is the record, whose first eight bytes the kernel uses otherwise. */
SEC("?tp")
int tracepoint_hit(void *record)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 address = address_of(record);

	if (config.walks_stacks && !is_traced()) /* stacks cost more than all else */
		return 0;
	begin_walks(record, 0, 0);
	handle_record(cookie_of(record), (struct pt_regs *)bpf_task_pt_regs(task), address, NULL,
		      LBT_POINT, false, NULL);
	end_walks();
	return 0;
}
