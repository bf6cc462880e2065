// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/* Programs that do nothing: what a probe itself costs. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe")
int entered(void *ctx)
{
	return 0;
}

SEC("uretprobe")
int returned(void *ctx)
{
	return 0;
}

SEC("uprobe")
int exit_site(void *ctx)
{
	return 0;
}

SEC("uprobe.session")
int session(void *ctx)
{
	return 0;
}
