#include "misses.h"

#include <bpf/bpf.h>

long long lbt_program_misses(int fd)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);
	int error = bpf_prog_get_info_by_fd(fd, &info, &size);

	return error ? error : (long long)info.recursion_misses;
}
