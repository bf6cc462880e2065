#include "kernel_features.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct bpf_insn lbt_nothing[] = {
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
	{ .code = BPF_JMP | BPF_EXIT },
};

int lbt_probe_sleepable(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, load, .prog_flags = BPF_F_SLEEPABLE);
	int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", lbt_nothing, 2, &load);

	if (program >= 0)
		close(program);
	return program >= 0;
}

/* A link to a path that is no file gives EBADF only past the check of the type, as libbpf's
 * features.c asks it. */
int lbt_probe_multi(enum bpf_attach_type type)
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

int lbt_probe_kernel_multi(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_KPROBE_MULTI);
	LIBBPF_OPTS(bpf_link_create_opts, create);
	const char *const function = "do_exit"; /* is seldom called */
	int program, link;

	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", lbt_nothing, 2, &load);
	if (program < 0)
		return 0;
	create.kprobe_multi.syms = (const char **)&function;
	create.kprobe_multi.cnt = 1;
	link = bpf_link_create(program, 0, BPF_TRACE_KPROBE_MULTI, &create);
	close(program);
	if (link >= 0)
		close(link);
	return link >= 0;
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

/* Made by anyone but the kernel's own code, and not stopped before, the call is an illegal
 * instruction. */
int lbt_probe_uretprobe_confined(void)
{
#if defined(__x86_64__)
	if (lbt_end_of_uretprobe(0) != SIGILL)
		return -1;
	return lbt_end_of_uretprobe(1) != SIGILL;
#else
	return 0;
#endif
}
