/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Which processes are traced besides the first one. */
#include "event.h"
#include "backup_programs.h"

/*
 * A followed process forks: its child is followed before it runs. If the parent is not
 * followed, drop a stale entry that an earlier process with this pid left.
 */
WITH_BACKUPS(sched_process_fork, forked)
{
	struct task_struct *child = (struct task_struct *)args[1];
	__u32 pid = BPF_CORE_READ(child, pid), tgid = BPF_CORE_READ(child, tgid);
	__u32 number = config.pidns_inode ? number_of(child) : tgid;
	struct hit parent;

	if (is_handled_fork(LBT_FORKED, child, by) || pid != tgid)
		return 0;
	if (identify(&parent)) {
		increment(LBT_CHILDREN);
		if (bpf_map_update_elem(&followed, &number, &number, 0))
			increment(LBT_UNCOUNTED); /* its calls are not seen */
	} else {
		bpf_map_delete_elem(&followed, &number);
	}
	return 0;
}

/*
 * The last thread of a process ends: its pid may be reused. One that is missed loses nothing, as
 * forked() knows a new process of that pid.
 */
SEC("?raw_tp/sched_process_exit")
int exited(__u64 *args)
{
	struct task_struct *task = (struct task_struct *)args[0];
	struct hit who;

	if (!BPF_CORE_READ(task, signal, live.counter) && identify(&who))
		bpf_map_delete_elem(&followed, &who.pid);
	return 0;
}
