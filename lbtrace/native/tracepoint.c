#include "tracepoint.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

int lbt_open_tracepoint(uint64_t number)
{
	struct perf_event_attr wanted = {
		.size = sizeof(wanted),
		.type = PERF_TYPE_TRACEPOINT,
		.config = number,
	};
	long opened = syscall(SYS_perf_event_open, &wanted, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	return opened < 0 ? -errno : (int)opened;
}
