#include "step_trial.h"

#include <bpf/bpf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Where Python's headers are those of x86-64, other machines define its name as well. */
#if defined(__x86_64__) && !defined(__aarch64__)

#define LBT_PAGE 4096
#define LBT_CALLS 200
#define LBT_WARM 10	 /* calls before: pages are mapped, the kernel makes what it needs */
#define LBT_EMULATED 64	 /* where the second function begins */
#define LBT_NOT_ASKED -1 /* no probe */

static long lbt_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static long lbt_time_calls(void (*function)(void))
{
	long from;

	for (int call = 0; call < LBT_WARM; call++)
		function();
	from = lbt_now();
	for (int call = 0; call < LBT_CALLS; call++)
		function();
	return (lbt_now() - from) / LBT_CALLS;
}

static int lbt_attach(int file, unsigned long offset, unsigned int flags)
{
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);
	LIBBPF_OPTS(bpf_link_create_opts, create);
	char path[32];
	int program, link;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", nothing, 2, &load);
	if (program < 0)
		return -1;
	create.uprobe_multi.path = path;
	create.uprobe_multi.offsets = &offset;
	create.uprobe_multi.cnt = 1;
	create.uprobe_multi.flags = flags;
	create.uprobe_multi.pid = getpid();
	link = bpf_link_create(program, -1, BPF_TRACE_UPROBE_MULTI, &create);
	close(program);
	return link;
}

/* What a call costs with a probe, 0 where there can be none. */
static long lbt_time_with(int file, const unsigned char *page, unsigned long offset, int flags)
{
	int link = flags == LBT_NOT_ASKED ? -1 : lbt_attach(file, offset, (unsigned int)flags);
	long taken = 0;

	if (flags == LBT_NOT_ASKED || link >= 0)
		taken = lbt_time_calls((void (*)(void))(page + offset));
	if (link >= 0)
		close(link);
	return taken;
}

long lbt_time_probe(int hooks)
{
	static const unsigned char stepped = 0xc3, emulated[] = { 0x90, 0xc3 };
	int file = syscall(SYS_memfd_create, "lbtrace", 1U /* MFD_CLOEXEC */);
	unsigned char *page = MAP_FAILED;
	long with = 0, without = 0;

	if (file < 0)
		return 0;
	if (!ftruncate(file, LBT_PAGE) && pwrite(file, &stepped, 1, 0) == 1 &&
	    pwrite(file, emulated, sizeof(emulated), LBT_EMULATED) == sizeof(emulated))
		page = mmap(NULL, LBT_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (page != MAP_FAILED) {
		unsigned long offset = hooks ? LBT_EMULATED : 0;

		with = lbt_time_with(file, page, offset, hooks ? BPF_F_UPROBE_MULTI_RETURN : 0);
		without = lbt_time_with(file, page, offset, hooks ? 0 : LBT_NOT_ASKED);
		munmap(page, LBT_PAGE);
	}
	close(file);
	return with > without ? with - without : 0;
}

#else

long lbt_time_probe(int hooks)
{
	return 0;
}

#endif
