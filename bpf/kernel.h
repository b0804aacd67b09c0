/* The kernel types that are read, with only the fields that are read. Field offsets are relocated
 * by BTF at load time (CO-RE), so the layout here does not matter, only names do.
 */
#ifndef PROFD_BPF_KERNEL_H_
#define PROFD_BPF_KERNEL_H_

#include <linux/bpf.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
#ifndef __cplusplus
typedef _Bool bool;
#define true 1
#define false 0
#endif
#ifndef NULL
#define NULL ((void *)0)
#endif

#define PF_IO_WORKER 0x00000010
#define PF_MEMALLOC 0x00000800
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000

#define TASK_RUNNING 0x00000000
#define TASK_ASLEEP 0x00000003 /* interruptible or not */
#define TASK_STOPPED_OR_TRACED 0x0000000c
#define TASK_DEAD 0x00000080
#define TASK_WAKING 0x00000200
#define TASK_NEW 0x00000800

#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000

#define VM_EXEC 0x00000004
#define VM_UFFD_MISSING 0x00000200
#define PAGE_SHIFT 12

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
	unsigned long si;
	unsigned long di;
	unsigned long dx;
	unsigned long cx;
	unsigned long r8;
	unsigned long orig_ax;
};

struct rq {
	u64 clock;
	u64 clock_task; /* without time of interrupts and the hypervisor */
};

struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
};

struct sched_entity {
	u64 exec_start; /* clock_task up to which sum_exec_runtime is charged */
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct task_io_accounting {
	u64 read_bytes;
	u64 write_bytes;
};

struct super_block {
	u32 s_dev;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	long long i_size;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	const struct vm_operations_struct *vm_ops; /* NULL for anonymous memory */
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct pid_namespace {
	unsigned int level;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct uprobe;

/* State of a thread that hit a probe. */
struct uprobe_task {
	unsigned long vaddr; /* address of the probe */
	struct uprobe *active_uprobe;
	unsigned long xol_vaddr; /* where the thread executes its instruction */
};

struct signal_struct {
	unsigned long long sum_sched_runtime; /* of exited threads except the leader, ns */
};

struct thread_struct {
	unsigned long fsbase; /* where its static thread-local variables end */
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int exit_state;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned in_iowait : 1;
	unsigned in_memstall : 1;
	int pid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct pid *thread_pid;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	char comm[16];
	struct files_struct *files;
	struct mm_struct *mm;
	struct mm_struct *active_mm; /* the same; still set while the thread exits */
	u64 start_time;
	u64 start_boottime;
	u64 self_exec_id;
	struct uprobe_task *utask;
	struct task_io_accounting ioac;
	struct bpf_local_storage *bpf_storage;
	struct thread_struct thread;
};

/* The x86 part of an mm_struct. */
struct mm_context {
	void *vdso; /* where the vDSO is mapped */
};

struct mm_struct {
	unsigned long start_brk;
	unsigned long brk;
	struct mm_context context;
};

struct block_device {
	u32 bd_dev;
};

struct bvec_iter {
	unsigned int bi_size; /* bytes left */
};

/* A part of the memory of a disk request. */
struct bio {
	struct bio *bi_next; /* in the same request */
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
};

/* `request`: what follows the three underscores is not part of the name. */
struct request___disk {
	struct bio *bio; /* the first */
	unsigned int __data_len; /* bytes left */
};

struct seq_file {
	unsigned long count;
};

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

struct seqcount {
	unsigned int sequence;
};

/* Counts the changes of its mappings: since 6.4, and as a seqcount since 6.13. */
struct mm_struct___count {
	int mm_lock_seq;
};
struct mm_struct___seqcount {
	struct seqcount mm_lock_seq;
};

/* When a file was written last: since 6.11, since 6.6, and before. */
struct inode___sec {
	s64 i_mtime_sec;
	u32 i_mtime_nsec;
};
struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};
struct inode___timespec {
	struct timespec64 __i_mtime;
};
struct inode___old {
	struct timespec64 i_mtime;
};

#pragma clang attribute pop

#endif /* PROFD_BPF_KERNEL_H_ */
