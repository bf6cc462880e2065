/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Tracepoints of the kernel: lbtrace/probes/tracepoint.py. */
#include "hit.h"

/*
 * The context is the record, whose first eight bytes the kernel uses otherwise. Only as a number, and
 * no longer as the context, may the record's address be moved by an offset that the verifier does not
 * know.
 */
SEC("?tp")
int tracepoint_hit(void *record)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 address;

	bpf_probe_read_kernel(&address, sizeof(address), &record);
	handle_record(cookie_of(record), (struct pt_regs *)bpf_task_pt_regs(task), address, NULL,
		      LBT_POINT, false, NULL);
	return 0;
}
