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
#define TASK_STOPPED 0x00000004
#define TASK_TRACED 0x00000008
#define TASK_DEAD 0x00000080
#define TASK_WAKING 0x00000200
#define TASK_NEW 0x00000800
#define TASK_FROZEN 0x00008000
#define JOBCTL_TRAP_FREEZE 0x00800000

#define EBUSY 16
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000

#define ANON_INODE_FS_MAGIC 0x09041934
#define PIPEFS_MAGIC 0x50495045
#define PID_FS_MAGIC 0x50494446

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define TCP_SYN_SENT 2
#define TCP_LISTEN 10 /* of Unix sockets too */
#define PIDTYPE_TGID 1
#define P_PID 1

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

struct list_head {
	struct list_head *next;
};

struct kernfs_node {
	const char *name;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct task_group {
	struct cgroup_subsys_state css;
};

struct rq {
	u64 clock;
	u64 clock_task; /* without time of interrupts and the hypervisor */
	struct task_struct *curr;
	struct list_head cfs_tasks; /* of the fair classes, queued or running */
};

struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
	struct task_group *tg; /* the same */
	int throttle_count; /* its quota ran out, or one above it; with CONFIG_CFS_BANDWIDTH */
};

struct sched_entity {
	u64 exec_start; /* clock_task up to which sum_exec_runtime is charged */
	u64 sum_exec_runtime;
	struct list_head group_node; /* in cfs_tasks */
	struct sched_entity *parent; /* with CONFIG_FAIR_GROUP_SCHED */
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
	unsigned long s_magic;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
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
	struct path f_path;
	void *private_data;
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

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct pid {
	unsigned int level;
	struct hlist_head tasks[4]; /* by type */
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
	int on_rq;
	int exit_state;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned in_iowait : 1;
	unsigned in_memstall : 1;
	unsigned frozen : 1; /* by the freezer of its cgroup, or ready for it */
	unsigned long jobctl;
	bool throttled; /* by a CPU quota, itself: since 6.18 */
	int pid;
	int tgid; /* its process */
	int pagefault_disabled; /* reads of memory that is not there fail */
	struct list_head children;
	struct list_head sibling; /* in its parent's children */
	struct hlist_node pid_links[4]; /* in its pid's tasks */
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

typedef struct {
	s64 counter;
} atomic64_t;

struct rw_semaphore {
	atomic64_t count; /* not on PREEMPT_RT */
};

struct mm_struct {
	struct rw_semaphore mmap_lock;
	unsigned long start_brk;
	unsigned long brk;
	struct mm_context context;
};

struct block_device {
	u32 bd_dev;
};

struct bvec_iter {
	u64 bi_sector; /* of 512 bytes */
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

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport; /* in network order */
	u16 skc_num;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_type;
	u16 sk_protocol;
	struct pid *sk_peer_pid;
};

struct socket {
	struct sock *sk;
};

struct inet_bind_bucket {
	signed char fastreuse; /* negative: the kernel chose the port for a connect */
};

struct inet_connection_sock {
	struct inet_bind_bucket *icsk_bind_hash;
};

struct tcp_sock {
	u32 rcv_nxt; /* what comes next */
	u32 snd_una; /* the first byte that is not acknowledged */
	u32 write_seq; /* the end of what was written */
	u32 snd_wl1; /* where the peer's data stood as it last acknowledged ours */
};

struct unix_address {
	int len; /* with the family */
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct eventpoll {
	struct rb_root_cached rbr;
};

struct epoll_filefd {
	struct file *file;
};

struct epitem {
	struct rb_node rbn;
	struct epoll_filefd ffd;
	struct eventpoll *ep;
};

struct io_ring_ctx {
	unsigned int cached_sq_head;
	unsigned int cached_cq_tail;
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
