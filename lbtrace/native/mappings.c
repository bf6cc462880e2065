/*
 * Collects the processes that map files executable. The kernel writes a record for each such
 * mapping (perf_event_mmap(), kernel/events/core.c), whoever asks for it, before mmap(2) or
 * execve(2) returns; the process that maps does not wait.
 */
#include "mappings.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"

#define LBT_PAGES 64 /* of each CPU: some 2,000 records */

struct lbt_mapped { /* PERF_RECORD_MMAP2: perf_event_open(2) */
	struct perf_event_header header;
	__u32 pid;
	__u32 tid;
	__u64 address, size, offset;
	__u32 major, minor;
	__u64 inode, generation;
	__u32 protection, flags;
	char path[];
};

struct lbt_lost {
	struct perf_event_header header;
	__u64 id;
	__u64 lost;
};

/* Notes the file that is mapped; the kernel ends its path with zeros. */
static int lbt_note_file(struct lbt_mappings *mappings, const struct lbt_mapped *mapped)
{
	const size_t length = mapped->header.size - sizeof(*mapped);
	struct lbt_mapped_file file = { mapped->inode, mapped->major << 20 | mapped->minor, length };
	const size_t size = mappings->file_size + sizeof(file) + length;

	if (mapped->path[0] != '/' || !mapped->inode)
		return 0;
	if (lbt_reserve(&mappings->files, &mappings->file_capacity, size, 1))
		return -ENOMEM;
	memcpy(mappings->files + mappings->file_size, &file, sizeof(file));
	memcpy(mappings->files + size - length, mapped->path, length);
	mappings->file_size = size;
	return 0;
}

static enum bpf_perf_event_ret lbt_note(void *context, int cpu, struct perf_event_header *header)
{
	const struct lbt_mapped *mapped = (struct lbt_mapped *)header;
	struct lbt_mappings *mappings = context;

	(void)cpu;
	if (header->type == PERF_RECORD_LOST)
		mappings->lost += ((struct lbt_lost *)header)->lost;
	if (header->type != PERF_RECORD_MMAP2)
		return LIBBPF_PERF_EVENT_CONT;
	if (lbt_note_file(mappings, mapped) ||
	    lbt_reserve((char **)&mappings->pids, &mappings->capacity, mappings->count + 1,
			sizeof(*mappings->pids)))
		mappings->lost++;
	else
		mappings->pids[mappings->count++] = mapped->pid;
	return LIBBPF_PERF_EVENT_CONT;
}

struct lbt_mappings *lbt_mappings_new(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.watermark = 1,
		.wakeup_watermark = 1,
	};
	struct lbt_mappings *mappings = calloc(1, sizeof(*mappings));
	int error;

	if (!mappings)
		return NULL;
	/* libbpf puts the events into a map, as for programs that write to them. */
	mappings->map = bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, NULL, sizeof(int),
				       sizeof(int), libbpf_num_possible_cpus(), NULL);
	if (mappings->map >= 0)
		mappings->buffer = perf_buffer__new_raw(mappings->map, LBT_PAGES, &attr, lbt_note,
							mappings, NULL);
	if (mappings->buffer)
		return mappings;
	error = errno;
	lbt_mappings_free(mappings);
	errno = error;
	return NULL;
}

void lbt_mappings_free(struct lbt_mappings *mappings)
{
	if (!mappings)
		return;
	perf_buffer__free(mappings->buffer);
	if (mappings->map >= 0)
		close(mappings->map);
	free(mappings->pids);
	free(mappings->files);
	free(mappings);
}

int lbt_mappings_fd(struct lbt_mappings *mappings)
{
	return perf_buffer__epoll_fd(mappings->buffer);
}

int lbt_mappings_drain(struct lbt_mappings *mappings)
{
	mappings->count = mappings->file_size = 0;
	return perf_buffer__consume(mappings->buffer);
}
