/* The reader of the ring buffer. */
#ifndef LBT_READER_H
#define LBT_READER_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

#include "lbtrace.h"

#define LBT_NAME_CACHE 4096

struct lbt_thread {
	__u64 time;
	__u32 pid;
	__u32 tid;
	struct lbt_runner runner;
};

struct lbt_reader {
	struct ring_buffer *rings;
	uint64_t *wake_at;
	char *events;
	size_t capacity; /* in events */
	size_t count;
	size_t entries; /* calls that began, of count */
	char *blobs;
	size_t blob_size;
	size_t blob_capacity;
	struct lbt_thread *threads;
	size_t thread_count;
	size_t thread_capacity;
	struct lbt_decoded_registers *decoded_registers; /* by probe, of as many as some need */
	size_t making_count;
	/* the last name seen of a thread, by tid; a collision reports it again */
	struct lbt_thread known[LBT_NAME_CACHE];
};

/*
 * wake_at is that of the programs, with which they are told when to wake the reader. Returns NULL,
 * with errno, where the ring cannot be mapped or memory lacks.
 */
struct lbt_reader *lbt_reader_new(int ring_fd, uint64_t *wake_at, size_t capacity);
void lbt_reader_free(struct lbt_reader *reader);

/*
 * Says how to make the values of a probe's events of what they record, before the first of them.
 * -ENOMEM.
 */
int lbt_reader_make(struct lbt_reader *reader, __u32 probe,
		    const struct lbt_decoded_registers *decoded);

/* Whether a quarter of the ring is full. */
int lbt_reader_is_filling(const struct lbt_reader *reader);

/* Lets the programs wake who waits at the ring's descriptor when a quarter of the ring fills. */
void lbt_reader_sleep(struct lbt_reader *reader);
void lbt_reader_wake(struct lbt_reader *reader);

/* Replaces what the last call collected by what the ring holds, up to most and the capacity. */
int lbt_reader_drain(struct lbt_reader *reader, size_t most);

#endif
