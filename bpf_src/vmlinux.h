/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * The kernel's types, as far as the programs read them. preserve_access_index
 * makes every field access a CO-RE relocation: offsets come from the running
 * kernel. pt_regs is the exception, its layout is ABI.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef signed char __s8;
typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef signed int __s32;
typedef unsigned int __u32;
typedef signed long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_NOEXIST = 1,
};
enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};
enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
};
enum {
	BPF_RB_AVAIL_DATA = 0,
};
struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

#if defined(__TARGET_ARCH_x86)
/* arch/x86/include/asm/ptrace.h */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
/* arch/arm64/include/uapi/asm/ptrace.h, asm/ptrace.h */
struct user_pt_regs {
	__u64 regs[31], sp, pc, pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct cpu_context {
	unsigned long sp;
};

struct thread_words {
	unsigned long tp_value;
};

struct thread_struct {
	unsigned long fsbase;		/* x86 */
	unsigned long sp;		/* x86 */
	struct cpu_context cpu_context; /* arm64 */
	struct thread_words uw;		/* arm64 */
};

/* x86: what is on the kernel's stack of a task that has not run yet. */
struct fork_frame {
	struct pt_regs regs;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one a level, from the initial namespace inwards */
};

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

/* include/linux/maple_tree.h, 6.1; its nodes hold no pointers to others but with bits of theirs. */
struct maple_metadata {
	unsigned char end;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
	struct maple_metadata meta;
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
	struct maple_metadata meta;
};

struct maple_node {
	struct maple_range_64 mr64;
	struct maple_arange_64 ma64;
};

struct maple_tree {
	void *ma_root;
};

struct mm_struct {
	struct maple_tree mm_mt; /* its mappings, by their addresses */
	unsigned long start_code; /* where the code of the main program lies */
	unsigned long end_code;
	unsigned long start_stack;
	struct uprobes_state uprobes_state;
};

/* A pending return of a uretprobe: the kernel drops those whose stack lies below a new one's. */
struct return_instance {
	unsigned long func; /* where the call was hooked */
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	bool chained; /* hooked already when this one was: the function had jumped here */
	struct return_instance *next;
};

struct uprobe_task {
	unsigned int depth;
	struct return_instance *return_instances; /* the last one first */
};

/* x86, from 5.11 on; include/linux/thread_info.h. */
enum syscall_work_bit {
	SYSCALL_WORK_BIT_SYSCALL_TRACE,
	SYSCALL_WORK_BIT_SYSCALL_EMU,
	SYSCALL_WORK_BIT_SYSCALL_USER_DISPATCH,
};

struct thread_info {
	unsigned long syscall_work;
	unsigned int status; /* x86: TS_COMPAT */
	unsigned long flags; /* arm64: TIF_32BIT */
};

/* What a task has in the kernel besides the registers. */
struct pt_regs___call {
	unsigned long orig_ax; /* x86 */
	int syscallno;	       /* arm64 */
};

struct sigaction {
	unsigned long sa_flags;
};

struct k_sigaction {
	struct sigaction sa;
};

/* include/linux/kernfs.h, cgroup-defs.h: of a task, its cgroup of version 2, and those around it. */
struct kernfs_node {
	__u64 id; /* the number of the directory's inode */
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct seccomp {
	int mode; /* 0: the thread is not confined; not there without CONFIG_SECCOMP */
};

struct task_struct {
	struct thread_info thread_info;
	struct thread_struct thread;
	unsigned int __state; /* from 5.14 on */
	void *stack;
	struct mm_struct *mm;
	struct uprobe_task *utask;
	unsigned long sas_ss_sp;
	unsigned long sas_ss_size; /* 0: no alternate signal stack */
	struct task_struct *group_leader;
	struct pid *thread_pid;
	int pid;
	int tgid;
	__u64 start_time;
	__u64 start_boottime;
	__u64 self_exec_id;
	unsigned long nvcsw;	     /* how often it waited, */
	unsigned long nivcsw;	     /* and was preempted */
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct seccomp seccomp;
	char comm[16];
};

/* include/linux/mm_types.h; empty without CONFIG_USERFAULTFD. */
struct vm_userfaultfd_ctx {
	void *ctx;
};

struct super_block {
	unsigned int s_dev;
	unsigned long s_magic;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct dentry {
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	unsigned int f_mode;
};

/* Of a file below an overlay; that has ``real_path`` before 6.7. */
struct backing_file {
	struct file file;
	struct path user_path;
};

/* The record of sched:sched_switch: include/trace/events/sched.h. */
struct trace_event_raw_sched_switch {
	int prev_pid;
	long prev_state;
	int next_pid;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
	struct vm_userfaultfd_ctx vm_userfaultfd_ctx;
};

#pragma clang attribute pop

#endif
