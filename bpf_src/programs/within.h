/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* What becomes of outermost calls where threads begin and end. */
#include "hit.h"
#include "backup_programs.h"

/* A new process continues its parent's calls; a new thread has none. */
WITH_BACKUPS(sched_process_fork, inherited)
{
	struct task_struct *child = (struct task_struct *)args[1];
	__u32 pid = BPF_CORE_READ(child, pid), tgid = BPF_CORE_READ(child, tgid);
	struct lbt_outermost *found;
	struct hit parent = {};
	__u64 lane;

	if (is_handled_fork(LBT_INHERITED, child, by) || pid != tgid || !identify(&parent))
		return 0;
	lane = parent.tid;
	found = bpf_map_lookup_elem(&outermost, &lane);
	if (!found)
		return 0;
	lane = config.pidns_inode ? number_of(child) : pid;
	bpf_map_update_elem(&outermost, &lane, found, 0);
	found = bpf_map_lookup_elem(&outermost, &lane);
	if (found)
		found->life = BPF_CORE_READ(child, start_boottime) ^
			      BPF_CORE_READ(child, self_exec_id) << 48;
	return 0;
}

/* One that is missed loses nothing, as a new thread of that number has another life. */
SEC("?raw_tp/sched_process_exit")
int ended(__u64 *args)
{
	struct hit who = {};
	__u64 lane;

	if (!identify(&who))
		return 0;
	lane = who.tid;
	bpf_map_delete_elem(&outermost, &lane);
	return 0;
}
