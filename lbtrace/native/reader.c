/*
 * Collects events, the bytes that follow them and the names of threads into three arrays, so
 * that Python handles batches.
 */
#include "reader.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

#define LBT_RECORD sizeof(struct lbt_event)
#define LBT_LATE 256 /* how many events a late one may be moved ahead of */

static int lbt_name(struct lbt_reader *reader, const struct lbt_event *e, const void *runner)
{
	struct lbt_thread *known = &reader->known[e->tid % LBT_NAME_CACHE];

	if (known->tid == e->tid && known->pid == e->pid &&
	    !memcmp(&known->runner, runner, sizeof(known->runner)))
		return 0;
	known->time = e->time;
	known->pid = e->pid;
	known->tid = e->tid;
	memcpy(&known->runner, runner, sizeof(known->runner));
	if (lbt_reserve((char **)&reader->threads, &reader->thread_capacity,
			reader->thread_count + 1, sizeof(*known)))
		return -ENOMEM;
	reader->threads[reader->thread_count++] = *known;
	return 0;
}

/* Packs the texts of an event: chunks of e->blob bytes, one a slot. */
static int lbt_pack(struct lbt_reader *reader, struct lbt_event *e, const __u64 *values,
		    const char *chunk)
{
	const __u32 slots = e->blob >> 16, size = e->blob & 0xffff, more = e->kind >> 8 & 0x7f;
	char *to;

	e->kind &= 0xff;
	if (lbt_reserve(&reader->blobs, &reader->blob_capacity,
			reader->blob_size + LBT_MORE + LBT_FETCHES * size, 1))
		return -ENOMEM;
	to = reader->blobs + reader->blob_size;
	memcpy(to, values + LBT_VALUES, 8 * more);
	to += 8 * more;
	for (int slot = 0; slot < LBT_FETCHES; slot++) {
		__u32 length;

		if (!(slots >> slot & 1))
			continue;
		length = (__u32)values[slot];
		if (!(e->faults >> slot & 1)) {
			memcpy(to, chunk, length);
			to += length;
		}
		chunk += size;
	}
	e->blob = to - (reader->blobs + reader->blob_size);
	reader->blob_size += e->blob;
	return 0;
}

/*
 * Puts the last event before those of other threads that happened later: a task that is
 * preempted between reading the clock and reserving room in the ring comes late.
 */
static int lbt_settle(struct lbt_reader *reader)
{
	struct lbt_event late, *events = (struct lbt_event *)reader->events;
	const size_t last = reader->count - 1;
	size_t place = last, passed = 0;
	char *blob;

	while (place && last - place < LBT_LATE && events[place - 1].time > events[last].time &&
	       events[place - 1].tid != events[last].tid)
		passed += events[--place].blob;
	if (place == last)
		return 0;
	late = events[last];
	memmove(events + place + 1, events + place, (last - place) * LBT_RECORD);
	events[place] = late;
	if (!late.blob || !passed)
		return 0;
	if (lbt_reserve(&reader->blobs, &reader->blob_capacity, reader->blob_size + late.blob, 1))
		return -ENOMEM;
	blob = reader->blobs + reader->blob_size - late.blob;
	memcpy(blob + late.blob, blob, late.blob);
	memmove(blob - passed + late.blob, blob - passed, passed);
	memcpy(blob - passed, blob + late.blob, late.blob);
	return 0;
}

/* Whether a record is as long as its numbers say, by which it is read. */
static int lbt_is_whole(const void *data, size_t size)
{
	const struct lbt_event *e = data;
	const __u64 *values = e->values;
	const size_t copied = size < LBT_WHOLE ? LBT_SHORT : LBT_RECORD;
	size_t left = size - copied;
	__u32 more, slots, chunk;

	if (size < LBT_SHORT)
		return 0;
	more = e->kind >> 8;
	slots = e->blob >> 16;
	chunk = e->blob & 0xffff;
	if (more) {
		if (left < LBT_MORE || (more & 0x7f) > LBT_FETCHES - LBT_VALUES)
			return 0;
		left -= LBT_MORE;
	}
	if (!more && !e->blob)
		return !(e->kind & LBT_NAMED) || left >= sizeof(struct lbt_runner);
	if (size < LBT_WHOLE || left < sizeof(struct lbt_runner) || (slots >> LBT_VALUES && !more))
		return 0;
	left -= sizeof(struct lbt_runner);
	if ((size_t)__builtin_popcount(slots) * chunk > left)
		return 0;
	for (int slot = 0; slot < LBT_FETCHES; slot++)
		if ((slots & ~e->faults) >> slot & 1 && (__u32)values[slot] > chunk)
			return 0;
	return 1;
}

/* Makes the values of a hit's event of what it has recorded, where they are not that. */
static void lbt_make(const struct lbt_reader *reader, struct lbt_event *e)
{
	const __u32 kind = e->kind & LBT_KIND_MASK;
	const struct lbt_decoded_registers *decoded;
	__u64 recorded[LBT_VALUES];

	if (e->probe >= reader->making_count || (kind != LBT_OPEN && kind != LBT_CLOSE && kind != LBT_POINT))
		return;
	decoded = &reader->decoded_registers[e->probe];
	if (!decoded->values)
		return;
	memcpy(recorded, e->values, sizeof(recorded));
	memset(e->values, 0, sizeof(e->values));
	for (__u32 n = 0; n < LBT_VALUES && n < decoded->values; n++) {
		const struct lbt_decoded_value *as = &decoded->value[n];
		__u64 v = as->offset;

		if (as->from < LBT_VALUES)
			v += recorded[as->from];
		v <<= as->left & 63;
		e->values[n] = as->is_signed ? (__u64)((__s64)v >> (as->right & 63))
					     : v >> (as->right & 63);
	}
}

int lbt_reader_make(struct lbt_reader *reader, __u32 probe,
		    const struct lbt_decoded_registers *decoded)
{
	if (probe >= reader->making_count) {
		const size_t count = probe + 1 > 2 * reader->making_count ? probe + 1
									  : 2 * reader->making_count;
		struct lbt_decoded_registers *grown =
			realloc(reader->decoded_registers, count * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		memset(grown + reader->making_count, 0,
		       (count - reader->making_count) * sizeof(*grown));
		reader->decoded_registers = grown;
		reader->making_count = count;
	}
	reader->decoded_registers[probe] = *decoded;
	return 0;
}

static int lbt_collect(void *context, void *data, size_t size)
{
	struct lbt_reader *reader = context;
	struct lbt_event *e = (struct lbt_event *)(reader->events + reader->count * LBT_RECORD);
	const size_t copied = size < LBT_WHOLE ? LBT_SHORT : LBT_RECORD;
	const char *runner;
	int error = 0;

	if (!lbt_is_whole(data, size))
		return -EPROTO;
	memcpy(e, data, copied);
	memset((char *)e + copied, 0, LBT_RECORD - copied);
	reader->count++;
	lbt_make(reader, e);
	runner = (const char *)data + copied + (e->kind >> 8 ? LBT_MORE : 0);
	if (e->blob || e->kind >> 8)
		error = lbt_pack(reader, e, ((const struct lbt_event *)data)->values,
				 runner + sizeof(struct lbt_runner));
	reader->entries += (e->kind & LBT_KIND_MASK) == LBT_OPEN;
	if (!error && e->kind & LBT_NAMED)
		error = lbt_name(reader, e, runner);
	e->kind &= ~LBT_NAMED;
	return error ? error : lbt_settle(reader);
}

void lbt_reader_free(struct lbt_reader *reader)
{
	if (!reader)
		return;
	ring_buffer__free(reader->rings);
	free(reader->events);
	free(reader->blobs);
	free(reader->threads);
	free(reader->decoded_registers);
	free(reader);
}

struct lbt_reader *lbt_reader_new(int ring_fd, uint64_t *wake_at, size_t capacity)
{
	struct lbt_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->capacity = capacity;
	reader->wake_at = wake_at;
	reader->events = malloc(capacity * LBT_RECORD);
	reader->rings = ring_buffer__new(ring_fd, lbt_collect, reader, NULL);
	if (!reader->events || !reader->rings) {
		int saved = errno;

		lbt_reader_free(reader);
		errno = saved;
		return NULL;
	}
	return reader;
}

int lbt_reader_is_filling(const struct lbt_reader *reader)
{
	const struct ring *ring = ring_buffer__ring(reader->rings, 0);

	return ring__avail_data_size(ring) >= ring__size(ring) / 4;
}

void lbt_reader_sleep(struct lbt_reader *reader)
{
	const struct ring *ring = ring_buffer__ring(reader->rings, 0);
	const size_t quarter = ring__size(ring) / 4;
	/* what a preempted task has not finished keeps all behind it from being read: wait for more */
	const size_t most = ring__avail_data_size(ring) + quarter;

	__atomic_store_n(reader->wake_at, most < 3 * quarter ? most : 3 * quarter, __ATOMIC_RELAXED);
}

void lbt_reader_wake(struct lbt_reader *reader)
{
	__atomic_store_n(reader->wake_at, 0, __ATOMIC_RELAXED);
}

int lbt_reader_drain(struct lbt_reader *reader, size_t most)
{
	int n;

	reader->count = reader->entries = reader->blob_size = reader->thread_count = 0;
	if (most > reader->capacity)
		most = reader->capacity;
	n = ring_buffer__consume_n(reader->rings, most);
	return n < 0 ? n : 0;
}
