#include "misses.h"

#include <bpf/bpf.h>

long long lbt_link_misses(int fd)
{
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);

	if (bpf_link_get_info_by_fd(fd, &info, &size))
		return 0;
	if (info.type == BPF_LINK_TYPE_KPROBE_MULTI)
		return info.kprobe_multi.missed;
	return info.type == BPF_LINK_TYPE_PERF_EVENT ? info.perf_event.kprobe.missed : 0;
}

long long lbt_program_misses(int fd)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);
	int error = bpf_prog_get_info_by_fd(fd, &info, &size);

	return error ? error : (long long)info.recursion_misses;
}
