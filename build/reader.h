/*
 * The reader of the ring buffer: gathers events, the bytes behind them and the
 * names of threads into three arrays, so that Python handles batches.
 *
 * Compiled into the extension module by build/bindings.py.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lbtrace.h"

#define LBT_RECORD sizeof(struct lbt_event)
#define LBT_NAME_CACHE 4096
#define LBT_LATE 256 /* events that one that comes late is put before, at most */

struct lbt_thread {
	__u64 time;
	__u32 pid;
	__u32 tid;
	struct lbt_runner runner;
};

struct lbt_reader {
	struct ring_buffer *rings;
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
	/* the last name seen of a thread, by tid; a collision tells it again */
	struct lbt_thread known[LBT_NAME_CACHE];
};

static int lbt_reserve(char **array, size_t *capacity, size_t wanted, size_t unit)
{
	size_t larger = *capacity ? *capacity : 4096;
	char *moved;

	if (wanted <= *capacity)
		return 0;
	while (larger < wanted)
		larger *= 2;
	moved = realloc(*array, larger * unit);
	if (!moved)
		return -ENOMEM;
	*array = moved;
	*capacity = larger;
	return 0;
}

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
		__u32 length = (__u32)values[slot];

		if (!(slots >> slot & 1))
			continue;
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
 * Puts the last event before those of other threads that happened later: who is
 * preempted between the look at the clock and the ring comes late.
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

static int lbt_gather(void *context, void *data, size_t size)
{
	struct lbt_reader *reader = context;
	struct lbt_event *e = (struct lbt_event *)(reader->events + reader->count * LBT_RECORD);
	const size_t copied = size < LBT_WHOLE ? LBT_SHORT_RETURN : LBT_RECORD;
	const char *runner;
	int error = 0;

	memcpy(e, data, copied);
	memset((char *)e + copied, 0, LBT_RECORD - copied);
	reader->count++;
	runner = (const char *)data + copied + (e->kind >> 8 ? LBT_MORE : 0);
	if (e->blob || e->kind >> 8)
		error = lbt_pack(reader, e, ((const struct lbt_event *)data)->values,
				 runner + sizeof(struct lbt_runner));
	if (!error && e->kind == LBT_ENTRY) {
		reader->entries++;
		error = lbt_name(reader, e, runner);
	}
	return error ? error : lbt_settle(reader);
}

static void lbt_reader_free(struct lbt_reader *reader)
{
	if (!reader)
		return;
	ring_buffer__free(reader->rings);
	free(reader->events);
	free(reader->blobs);
	free(reader->threads);
	free(reader);
}

/* NULL with errno where it cannot be had. */
static struct lbt_reader *lbt_reader_new(int ring_fd, size_t capacity)
{
	struct lbt_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->capacity = capacity;
	reader->events = malloc(capacity * LBT_RECORD);
	reader->rings = ring_buffer__new(ring_fd, lbt_gather, reader, NULL);
	if (!reader->events || !reader->rings) {
		int saved = errno;

		lbt_reader_free(reader);
		errno = saved;
		return NULL;
	}
	return reader;
}

/* Readable when the ring has something to say. */
static int lbt_reader_fd(struct lbt_reader *reader)
{
	return ring_buffer__epoll_fd(reader->rings);
}

/* Replace what the last call gathered by what the ring holds, up to the capacity. */
static int lbt_reader_drain(struct lbt_reader *reader)
{
	int n;

	reader->count = reader->entries = reader->blob_size = reader->thread_count = 0;
	n = ring_buffer__consume_n(reader->rings, reader->capacity);
	return n < 0 ? n : 0;
}

/* What libbpf says, the verifier's log among it, kept until it is taken. */
static char *lbt_log;
static size_t lbt_log_size, lbt_log_capacity;

static int lbt_print(enum libbpf_print_level level, const char *format, va_list arguments)
{
	va_list again;
	int length;

	if (level == LIBBPF_DEBUG)
		return 0;
	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length < 0 || lbt_reserve(&lbt_log, &lbt_log_capacity, lbt_log_size + length + 1, 1))
		return 0;
	vsnprintf(lbt_log + lbt_log_size, length + 1, format, arguments);
	lbt_log_size += length;
	return length;
}

static void lbt_log_start(void)
{
	libbpf_set_print(lbt_print);
	lbt_log_size = 0;
}

static const char *lbt_log_text(void)
{
	return lbt_log_size ? lbt_log : "";
}

/* How often the kernel skipped a program because it was running already. */
static long long lbt_program_misses(int fd)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);
	int error = bpf_prog_get_info_by_fd(fd, &info, &size);

	return error ? error : (long long)info.recursion_misses;
}

static const struct bpf_insn lbt_nothing[] = {
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
	{ .code = BPF_JMP | BPF_EXIT },
};

/* Whether programs of uprobes may sleep. */
static int lbt_probe_sleepable(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, load, .prog_flags = BPF_F_SLEEPABLE);
	int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", lbt_nothing, 2, &load);

	if (program >= 0)
		close(program);
	return program >= 0;
}

/*
 * Whether the kernel knows an attach type of uprobe_multi: a link to a path
 * that is no file gives EBADF only past that check (as libbpf's features.c
 * asks it). 1, 0, or a negative error.
 */
static int lbt_probe_multi(enum bpf_attach_type type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = type);
	LIBBPF_OPTS(bpf_link_create_opts, create);
	const unsigned long offset = 0;
	int program, link;

	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", lbt_nothing, 2, &load);
	if (program < 0)
		return program == -EPERM ? -EPERM : 0;
	create.uprobe_multi.path = "/";
	create.uprobe_multi.offsets = &offset;
	create.uprobe_multi.cnt = 1;
	link = bpf_link_create(program, -1, type, &create);
	close(program);
	if (link >= 0)
		close(link);
	return link == -EBADF;
}

/* A function of the kernel's that is there to be probed, and called by test runs alone. */
#define LBT_KERNEL_FUNCTION "bpf_fentry_test1"

/* Whether programs can be attached to kernel functions by kprobes of the PMU of that type. */
static int lbt_probe_kprobe(unsigned int pmu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = pmu,
		.kprobe_func = (__u64)(unsigned long)LBT_KERNEL_FUNCTION,
	};
	int program, event, works;

	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", lbt_nothing, 2, NULL);
	if (program < 0)
		return 0;
	event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	works = event >= 0 && !ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
	if (event >= 0)
		close(event);
	close(program);
	return works;
}

/* Whether programs can be attached to kernel functions by trampolines, and run there. */
static int lbt_probe_fentry(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_FENTRY);
	LIBBPF_OPTS(bpf_test_run_opts, run);
	int program, link, works, id;

	id = libbpf_find_vmlinux_btf_id(LBT_KERNEL_FUNCTION, BPF_TRACE_FENTRY);
	if (id < 0)
		return 0;
	load.attach_btf_id = id;
	program = bpf_prog_load(BPF_PROG_TYPE_TRACING, NULL, "GPL", lbt_nothing, 2, &load);
	if (program < 0)
		return 0;
	link = bpf_raw_tracepoint_open(NULL, program);
	works = link >= 0 && !bpf_prog_test_run_opts(program, &run);
	if (link >= 0)
		close(link);
	close(program);
	return works;
}

#define LBT_URETPROBE 335 /* arch/x86/entry/syscalls/syscall_64.tbl */

/* The signal that ends a process which makes the system call of uretprobes; 0 if none does. */
static int lbt_end_of_uretprobe(int confined)
{
	const struct rlimit no_core = {};
	int status = 0;
	pid_t child = vfork(); /* shares memory and nothing else, so it is quick */

	if (child < 0)
		return 0;
	if (!child) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGILL, SIG_DFL);
		if (confined)
			prctl(PR_SET_SECCOMP, 1, 0, 0, 0); /* strict; fails under a filter */
		syscall(LBT_URETPROBE);
		syscall(SYS_exit, 0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/*
 * Whether the kernel passes the system call of uretprobes to seccomp: 1, 0, or -1 where
 * that is not seen, as there is no such call or seccomp keeps it from us. Made by anyone
 * but the kernel's own code, and not stopped before, it is an illegal instruction.
 */
static int lbt_probe_uretprobe_confined(void)
{
#if defined(__x86_64__)
	if (lbt_end_of_uretprobe(0) != SIGILL)
		return -1;
	return lbt_end_of_uretprobe(1) != SIGILL;
#else
	return 0;
#endif
}
