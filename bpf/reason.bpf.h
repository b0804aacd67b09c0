/* Why a thread is not running: the table in docs/architecture-details.md, in its order; first match
 * wins.
 */
#ifndef PROFD_BPF_REASON_BPF_H_
#define PROFD_BPF_REASON_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "untrusted.bpf.h"

/* Classes of system calls that need a second look; above every enum profd_reason. */
#define CLASS_FILE 0x40 /* file metadata and opens: disk when in I/O wait */
#define CLASS_STREAM 0x41 /* read and write family: disk, pipe or net, by the type of the fd */

/* Added to a class: the first argument of the call names what it waits for, a file descriptor, a
 * futex or a semaphore set. Other first arguments are pointers and lengths, and each would be a
 * counter.
 */
#define NAMES_OBJECT 0x80

#define SYSCALL_CLASSES 512

/* Class of each x86-64 system call: an enum profd_reason or CLASS_*, with NAMES_OBJECT; 0 = other.
 */
static const u8 syscall_class[SYSCALL_CLASSES] = {
	[0] = CLASS_STREAM | NAMES_OBJECT,
	[1] = CLASS_STREAM | NAMES_OBJECT, /* read, write */
	[17] = CLASS_STREAM | NAMES_OBJECT,
	[18] = CLASS_STREAM | NAMES_OBJECT, /* pread64, pwrite64 */
	[19] = CLASS_STREAM | NAMES_OBJECT,
	[20] = CLASS_STREAM | NAMES_OBJECT, /* readv, writev */
	[295] = CLASS_STREAM | NAMES_OBJECT,
	[296] = CLASS_STREAM | NAMES_OBJECT, /* preadv, pwritev */
	[327] = CLASS_STREAM | NAMES_OBJECT,
	[328] = CLASS_STREAM | NAMES_OBJECT, /* preadv2, pwritev2 */
	[40] = CLASS_STREAM | NAMES_OBJECT, /* sendfile */
	[275] = PROFD_REASON_PIPE | NAMES_OBJECT,
	[276] = PROFD_REASON_PIPE | NAMES_OBJECT,
	[278] = PROFD_REASON_PIPE | NAMES_OBJECT,
	[2] = CLASS_FILE,
	[257] = CLASS_FILE,
	[437] = CLASS_FILE, /* open, openat, openat2 */
	[3] = CLASS_FILE,
	[4] = CLASS_FILE,
	[5] = CLASS_FILE | NAMES_OBJECT,
	[6] = CLASS_FILE,
	[9] = CLASS_FILE,
	[21] = CLASS_FILE,
	[28] = CLASS_FILE,
	[59] = CLASS_FILE,
	[76] = CLASS_FILE,
	[77] = CLASS_FILE | NAMES_OBJECT,
	[78] = CLASS_FILE | NAMES_OBJECT,
	[82] = CLASS_FILE,
	[83] = CLASS_FILE,
	[84] = CLASS_FILE,
	[87] = CLASS_FILE,
	[187] = CLASS_FILE,
	[217] = CLASS_FILE | NAMES_OBJECT,
	[221] = CLASS_FILE | NAMES_OBJECT,
	[258] = CLASS_FILE,
	[262] = CLASS_FILE,
	[263] = CLASS_FILE,
	[264] = CLASS_FILE,
	[285] = CLASS_FILE,
	[316] = CLASS_FILE,
	[322] = CLASS_FILE,
	[326] = CLASS_FILE,
	[332] = CLASS_FILE,
	[74] = PROFD_REASON_FSYNC | NAMES_OBJECT,
	[75] = PROFD_REASON_FSYNC | NAMES_OBJECT,
	[277] = PROFD_REASON_FSYNC | NAMES_OBJECT,
	[26] = PROFD_REASON_FSYNC,
	[162] = PROFD_REASON_FSYNC,
	[306] = PROFD_REASON_FSYNC | NAMES_OBJECT,
	[202] = PROFD_REASON_LOCK | NAMES_OBJECT,
	[449] = PROFD_REASON_LOCK,
	[455] = PROFD_REASON_LOCK | NAMES_OBJECT,
	[73] = PROFD_REASON_LOCK | NAMES_OBJECT,
	[65] = PROFD_REASON_LOCK | NAMES_OBJECT,
	[220] = PROFD_REASON_LOCK | NAMES_OBJECT,
	[7] = PROFD_REASON_POLL,
	[271] = PROFD_REASON_POLL,
	[23] = PROFD_REASON_POLL,
	[270] = PROFD_REASON_POLL,
	[232] = PROFD_REASON_POLL | NAMES_OBJECT,
	[281] = PROFD_REASON_POLL | NAMES_OBJECT,
	[441] = PROFD_REASON_POLL | NAMES_OBJECT,
	[426] = PROFD_REASON_POLL | NAMES_OBJECT,
	[208] = PROFD_REASON_POLL,
	[333] = PROFD_REASON_POLL,
	[42] = PROFD_REASON_NET | NAMES_OBJECT,
	[43] = PROFD_REASON_NET | NAMES_OBJECT,
	[288] = PROFD_REASON_NET | NAMES_OBJECT,
	[44] = PROFD_REASON_NET | NAMES_OBJECT,
	[45] = PROFD_REASON_NET | NAMES_OBJECT,
	[46] = PROFD_REASON_NET | NAMES_OBJECT,
	[47] = PROFD_REASON_NET | NAMES_OBJECT,
	[299] = PROFD_REASON_NET | NAMES_OBJECT,
	[307] = PROFD_REASON_NET | NAMES_OBJECT,
	[35] = PROFD_REASON_SLEEP,
	[230] = PROFD_REASON_SLEEP,
	[56] = PROFD_REASON_CHILD, /* clone, clone3, vfork: until the child runs another program */
	[435] = PROFD_REASON_CHILD,
	[58] = PROFD_REASON_CHILD,
	[61] = PROFD_REASON_CHILD,
	[247] = PROFD_REASON_CHILD,
	[34] = PROFD_REASON_SIGNAL,
	[130] = PROFD_REASON_SIGNAL,
	[128] = PROFD_REASON_SIGNAL,
};

#define SYS_CLONE 56
#define CLONE_VFORK 0x4000

/* Reason of a read or write that is not in I/O wait. */
static __always_inline u8 stream_reason(struct task_struct *task, u64 fd)
{
	struct fdtable *table = untrusted(task)->files->fdt;
	struct file *file = NULL;
	u16 type;

	if (fd >= table->max_fds ||
	    bpf_probe_read_kernel(&file, sizeof(file), table->fd + (u32)fd) || !file)
		return PROFD_REASON_OTHER;
	type = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
	if (type == S_IFIFO)
		return PROFD_REASON_PIPE;
	if (type == S_IFSOCK)
		return PROFD_REASON_NET;
	return PROFD_REASON_OTHER;
}

/* Whether the freezer has the thread. Who waits for a vfork is marked as frozen, but only told to
 * freeze with its cgroup.
 */
static __always_inline bool is_frozen(struct task_struct *task, u32 state)
{
	if (state & TASK_FROZEN)
		return true;
	return task->jobctl & JOBCTL_TRAP_FREEZE &&
	       bpf_core_field_exists(struct task_struct, frozen) &&
	       BPF_CORE_READ_BITFIELD(task, frozen);
}

/* Reason of a thread that blocks or is blocked in `state`. *sysno is -1 outside a system call.
 * *object is the call's first argument where that names what it waits for, else 0.
 */
static __always_inline u8 blocked_reason(struct task_struct *task, struct pt_regs *regs, u32 state,
					 s32 *sysno, u64 *object)
{
	u64 number = regs ? (u64)regs->orig_ax : 0;
	u8 class = PROFD_REASON_OTHER;

	*sysno = -1;
	*object = 0;
	if (task->flags & (PF_IO_WORKER | PF_USER_WORKER))
		regs = NULL;
	if (regs && (s64)number >= 0) {
		*sysno = (s32)number;
		if (number < SYSCALL_CLASSES)
			class = syscall_class[number];
		if (class & NAMES_OBJECT)
			*object = regs->di;
		class &= ~NAMES_OBJECT;
		/* Else it waits for the memory map, say. The flags of clone3 are in user memory. */
		if (number == SYS_CLONE && !(regs->di & CLONE_VFORK))
			class = PROFD_REASON_OTHER;
	}
	if (state & TASK_STOPPED)
		return PROFD_REASON_STOPPED;
	if (state & TASK_TRACED)
		return PROFD_REASON_TRACED;
	if (is_frozen(task, state))
		return PROFD_REASON_FROZEN;
	if (task->flags & PF_MEMALLOC)
		return PROFD_REASON_RECLAIM;
	if (bpf_core_field_exists(struct task_struct, in_memstall) &&
	    BPF_CORE_READ_BITFIELD(task, in_memstall))
		return PROFD_REASON_RECLAIM;
	if (!regs)
		return PROFD_REASON_OTHER;
	if ((s64)number < 0)
		return PROFD_REASON_FAULT;
	if (class < CLASS_FILE)
		return class ? class : PROFD_REASON_OTHER;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return PROFD_REASON_DISK;
	if (class == CLASS_STREAM)
		return stream_reason(task, *object);
	return PROFD_REASON_OTHER;
}

#endif /* PROFD_BPF_REASON_BPF_H_ */
