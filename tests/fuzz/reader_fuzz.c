/*
 * The reader of the ring buffer under libFuzzer and the sanitizers: records of any content and
 * size. Stands in for the parts of libbpf that need a kernel.
 */
#include "reader.c"

struct ring_buffer *ring_buffer__new(int fd, ring_buffer_sample_fn sample, void *context,
				     const struct ring_buffer_opts *options)
{
	(void)fd, (void)sample, (void)context, (void)options;
	return (struct ring_buffer *)1;
}
void ring_buffer__free(struct ring_buffer *rings) { (void)rings; }
struct ring *ring_buffer__ring(struct ring_buffer *rings, unsigned int n) { (void)n; return (void *)rings; }
size_t ring__avail_data_size(const struct ring *ring) { (void)ring; return 0; }
size_t ring__size(const struct ring *ring) { (void)ring; return 0; }
int ring_buffer__consume_n(struct ring_buffer *rings, size_t n) { (void)rings, (void)n; return 0; }

/* Records, each with its length before it, in copies of their own so that none is overread. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct lbt_reader *reader = lbt_reader_new(-1, NULL, 64);
	struct lbt_decoded_registers decoded;

	for (unsigned probe = 0; size > sizeof(decoded) && data[0] & 1 && probe < 2; probe++) {
		memcpy(&decoded, data + 1, sizeof(decoded));
		lbt_reader_make(reader, probe * data[1], &decoded);
		data += 1 + sizeof(decoded);
		size -= 1 + sizeof(decoded);
	}
	while (size > 2 && reader->count < reader->capacity) {
		size_t length = data[0] | data[1] << 8;
		void *record;

		data += 2;
		size -= 2;
		if (length > size)
			length = size;
		record = malloc(length);
		memcpy(record, data, length);
		if (!lbt_collect(reader, record, length) &&
		    reader->blob_size > reader->blob_capacity)
			abort();
		free(record);
		data += length;
		size -= length;
	}
	lbt_reader_free(reader);
	return 0;
}
