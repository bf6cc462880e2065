/* Which processes map files executable: the kernel's records of PERF_RECORD_MMAP2. */
#ifndef LBT_MAPPINGS_H
#define LBT_MAPPINGS_H

#include <linux/types.h>
#include <stddef.h>

/* A file that was mapped; its path follows, of so many bytes. */
struct lbt_mapped_file {
	__u64 inode;
	__u32 device; /* as in the kernel: major << 20 | minor */
	__u32 length;
};

struct lbt_mappings {
	struct perf_buffer *buffer;
	int map;
	__u32 *pids; /* of the records that were read, several times perhaps */
	size_t count;
	size_t capacity;
	char *files; /* struct lbt_mapped_file, and path, each */
	size_t file_size;
	size_t file_capacity;
	__u64 lost;  /* records that had no room, in all */
};

/*
 * Watches all processes of the machine, each CPU by itself. Returns NULL, with errno, where that
 * is not permitted (CAP_PERFMON) or memory lacks.
 */
struct lbt_mappings *lbt_mappings_new(void);
void lbt_mappings_free(struct lbt_mappings *mappings);

/* A descriptor that is readable when there is a record. */
int lbt_mappings_fd(struct lbt_mappings *mappings);

/* Replaces what the last call collected by what there is now. */
int lbt_mappings_drain(struct lbt_mappings *mappings);

#endif
