/* What the running kernel can do, found by trying. */
#ifndef LBT_KERNEL_FEATURES_H
#define LBT_KERNEL_FEATURES_H

#include <linux/bpf.h>

/* Whether programs of uprobes may sleep. */
int lbt_probe_sleepable(void);

/* Whether the kernel attaches a program to several of its functions at once: kprobe.multi. */
int lbt_probe_kernel_multi(void);

/* Whether the kernel knows an attach type of uprobe_multi: 1, 0, or a negative error. */
int lbt_probe_multi(enum bpf_attach_type type);

/*
 * Whether the kernel passes the system call of uretprobes to seccomp: 1, 0, or -1 where
 * that is unknown, because there is no such call, or seccomp refuses it to us.
 */
int lbt_probe_uretprobe_confined(void);

#endif
