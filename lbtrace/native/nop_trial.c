#include "nop_trial.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where Python's headers are those of x86-64, other machines define its name as well. */
#if defined(__x86_64__) && !defined(__aarch64__)

#define LBT_HITS 16	/* the kernel replaces at the first one; more show what it does then */
#define LBT_LONGEST 15	/* bytes of an instruction, Intel SDM 2.3.11 */
#define LBT_SECONDS 10	/* a trial that takes longer has failed */
#define LBT_MIDDLE 256	/* where in the page the second function begins */
#define LBT_PAGE 4096
#define LBT_RED_ZONE 128 /* psABI 3.2.2 */

/* Stores an argument at the upper and at the lower end of the red zone. */
#define LBT_STORE 0x48, 0x89, 0x7c, 0x24, 0xf8, 0x48, 0x89, 0x7c, 0x24, 0x80
/* Returns the sum of both and of the other registers that hold something at an entry. */
#define LBT_ADD                                                                                    \
	0x48, 0x01, 0xf0, 0x48, 0x01, 0xd0, 0x48, 0x01, 0xc8, 0x4c, 0x01, 0xc0, 0x4c, 0x01, 0xc8,  \
		0x4c, 0x01, 0xd0, 0x4c, 0x01, 0xd8, 0x48, 0x03, 0x44, 0x24, 0xf8, 0x48, 0x03,      \
		0x44, 0x24, 0x80, 0xc3

static const unsigned char lbt_store[] = { LBT_STORE };
static const unsigned char lbt_add[] = { LBT_ADD };
static const unsigned char lbt_store_and_add[] = { LBT_STORE, LBT_ADD };

/* Calls `function`; returns whether it found in the registers, and kept, what it should. */
static int lbt_call(const void *function, long number)
{
	register long r8 __asm__("r8") = number << 5, r9 __asm__("r9") = number << 6;
	register long r10 __asm__("r10") = number << 7, r11 __asm__("r11") = number << 8;
	long di = number, si = number << 2, dx = number << 3, cx = number << 4, ax = number << 9;

	/* the compiler may keep something in the red zone */
	__asm__ volatile("sub $256, %%rsp\n\tcall *%[function]\n\tadd $256, %%rsp"
			 : "+a"(ax), "+D"(di), "+S"(si), "+d"(dx), "+c"(cx), "+r"(r8), "+r"(r9),
			   "+r"(r10), "+r"(r11)
			 : [function] "b"(function)
			 : "memory", "cc");
	return ax == number * (2 + 4 + 8 + 16 + 32 + 64 + 128 + 256 + 512);
}

static int lbt_hit(const void *function)
{
	int exact = 1;

	for (long number = 1; number <= LBT_HITS; number++)
		exact &= lbt_call(function, number);
	return exact;
}

/* How a process ends; 0 if it ends well. */
static int lbt_end_of(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* In a process of its own: `file` is the page with both functions. */
static int lbt_try_in_child(int file, const unsigned char *nop)
{
	const struct rlimit no_core = {};
	const unsigned char *page;
	int found = LBT_NOP_TRIED;
	pid_t child;

	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	alarm(LBT_SECONDS);
	page = mmap(NULL, LBT_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (page == MAP_FAILED)
		return 0;
	found |= lbt_hit(page) ? LBT_NOP_EXACT : 0;
	if (page[0] == nop[0]) /* the kernel refuses a probe there */
		return found;
	found |= page[0] != 0xcc ? LBT_NOP_REPLACED : 0;
	found |= lbt_hit(page + LBT_MIDDLE) ? LBT_NOP_RED_ZONE : 0;
	child = syscall(SYS_fork); /* without what the C library does before and after */
	if (!child)
		syscall(SYS_exit_group, !lbt_hit(page));
	if (child > 0 && !lbt_end_of(child))
		found |= LBT_NOP_FORKS;
	/* the call ends in a system call; this kills the process where seccomp is asked about it */
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
	return lbt_hit(page) ? found : found & ~LBT_NOP_EXACT;
}

/* A file in memory with the two functions: one begins with the nop, in the other one it comes
 * after the red zone is in use. */
static int lbt_write_functions(const unsigned char *nop, size_t size)
{
	unsigned char page[LBT_PAGE] = {}, *middle = page + LBT_MIDDLE;
	int file = syscall(SYS_memfd_create, "lbtrace", 1U /* MFD_CLOEXEC */);

	memcpy(page, nop, size);
	memcpy(page + size, lbt_store_and_add, sizeof(lbt_store_and_add));
	memcpy(middle, lbt_store, sizeof(lbt_store));
	memcpy(middle + sizeof(lbt_store), nop, size);
	memcpy(middle + sizeof(lbt_store) + size, lbt_add, sizeof(lbt_add));
	if (file >= 0 && write(file, page, sizeof(page)) != sizeof(page)) {
		close(file);
		return -1;
	}
	return file;
}

/* Puts probes on both nops, which nobody else maps. */
static int lbt_attach(int file)
{
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	const unsigned long offsets[] = { 0, LBT_MIDDLE + sizeof(lbt_store) };
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);
	LIBBPF_OPTS(bpf_link_create_opts, create);
	char path[32];
	int program, link;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", nothing, 2, &load);
	if (program < 0)
		return -1;
	create.uprobe_multi.path = path;
	create.uprobe_multi.offsets = offsets;
	create.uprobe_multi.cnt = 2;
	link = bpf_link_create(program, -1, BPF_TRACE_UPROBE_MULTI, &create);
	close(program);
	return link;
}

int lbt_try_nop(const unsigned char *nop, size_t size)
{
	int file, link, status = 0;
	pid_t child;

	if (!size || size > LBT_LONGEST)
		return 0;
	file = lbt_write_functions(nop, size);
	if (file < 0)
		return 0;
	link = lbt_attach(file);
	if (link >= 0) {
		child = fork();
		if (!child)
			syscall(SYS_exit, lbt_try_in_child(file, nop));
		status = child > 0 ? lbt_end_of(child) : 0;
		close(link);
	}
	close(file);
	/* a trial that ends by a signal has shown that the probe does harm */
	return WIFEXITED(status) ? WEXITSTATUS(status) : LBT_NOP_TRIED | LBT_NOP_REPLACED;
}

#else

int lbt_try_nop(const unsigned char *nop, size_t size)
{
	return 0;
}

#endif
