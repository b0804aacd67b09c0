/* What a thread waits for, by the system call and the descriptor that it is in. Reads kernel memory
 * that may change meanwhile: who calls checks that the thread has not run.
 */
#ifndef PROFD_BPF_OBJECT_BPF_H_
#define PROFD_BPF_OBJECT_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "description.bpf.h"
#include "field.bpf.h"
#include "loss.bpf.h"
#include "mapping_cache.bpf.h"
#include "path.bpf.h"
#include "socket.bpf.h"
#include "target.bpf.h"

#define OBJECT_SYSCALLS 512
#define OBJECT_CHILDREN 16 /* that are looked at for one */

/* enum profd_object_action of each x86-64 system call whose object can be described. */
static const u8 object_actions[OBJECT_SYSCALLS] = {
	[0] = PROFD_ACTION_READ, /* read */
	[17] = PROFD_ACTION_READ, /* pread64 */
	[19] = PROFD_ACTION_READ, /* readv */
	[45] = PROFD_ACTION_READ, /* recvfrom */
	[47] = PROFD_ACTION_READ, /* recvmsg */
	[275] = PROFD_ACTION_READ, /* splice */
	[276] = PROFD_ACTION_READ, /* tee */
	[295] = PROFD_ACTION_READ, /* preadv */
	[299] = PROFD_ACTION_READ, /* recvmmsg */
	[327] = PROFD_ACTION_READ, /* preadv2 */
	[1] = PROFD_ACTION_WRITE, /* write */
	[18] = PROFD_ACTION_WRITE, /* pwrite64 */
	[20] = PROFD_ACTION_WRITE, /* writev */
	[40] = PROFD_ACTION_WRITE, /* sendfile */
	[44] = PROFD_ACTION_WRITE, /* sendto */
	[46] = PROFD_ACTION_WRITE, /* sendmsg */
	[278] = PROFD_ACTION_WRITE, /* vmsplice */
	[285] = PROFD_ACTION_WRITE, /* fallocate */
	[296] = PROFD_ACTION_WRITE, /* pwritev */
	[307] = PROFD_ACTION_WRITE, /* sendmmsg */
	[328] = PROFD_ACTION_WRITE, /* pwritev2 */
	[43] = PROFD_ACTION_ACCEPT, /* accept */
	[288] = PROFD_ACTION_ACCEPT, /* accept4 */
	[42] = PROFD_ACTION_CONNECT, /* connect */
	[74] = PROFD_ACTION_SYNC, /* fsync */
	[75] = PROFD_ACTION_SYNC, /* fdatasync */
	[277] = PROFD_ACTION_SYNC, /* sync_file_range */
	[306] = PROFD_ACTION_SYNC, /* syncfs */
	[5] = PROFD_ACTION_ACCESS, /* fstat */
	[77] = PROFD_ACTION_ACCESS, /* ftruncate */
	[78] = PROFD_ACTION_ACCESS, /* getdents */
	[217] = PROFD_ACTION_ACCESS, /* getdents64 */
	[7] = PROFD_ACTION_POLL, /* poll */
	[271] = PROFD_ACTION_POLL, /* ppoll */
	[23] = PROFD_ACTION_SELECT, /* select */
	[270] = PROFD_ACTION_SELECT, /* pselect6 */
	[232] = PROFD_ACTION_READ, /* epoll_wait */
	[281] = PROFD_ACTION_READ, /* epoll_pwait */
	[441] = PROFD_ACTION_READ, /* epoll_pwait2 */
	[426] = PROFD_ACTION_READ, /* io_uring_enter */
	[61] = PROFD_ACTION_CHILD, /* wait4 */
	[247] = PROFD_ACTION_CHILD, /* waitid */
};
#define SYS_WAITID 247

/* The file of a descriptor, or NULL. */
static __always_inline struct file *file_of(struct task_struct *task, u64 fd)
{
	struct fdtable *table = FIELD(files_struct, FIELD(task_struct, task, files), fdt);
	struct file **files;
	struct file *file = NULL;

	if (!table || fd >= FIELD(fdtable, table, max_fds))
		return NULL;
	files = FIELD(fdtable, table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + (u32)fd))
		return NULL;
	return file;
}

/* The first letters of the name of an anonymous file, as a number. */
#define ANONYMOUS(a, b, c, d, e, f, g, h)                                                          \
	((u64)(a) | (u64)(b) << 8 | (u64)(c) << 16 | (u64)(d) << 24 | (u64)(e) << 32 |             \
	 (u64)(f) << 40 | (u64)(g) << 48 | (u64)(h) << 56)
#define NAME_EVENTFD ANONYMOUS('[', 'e', 'v', 'e', 'n', 't', 'f', 'd')
#define NAME_EPOLL ANONYMOUS('[', 'e', 'v', 'e', 'n', 't', 'p', 'o')
#define NAME_TIMERFD ANONYMOUS('[', 't', 'i', 'm', 'e', 'r', 'f', 'd')
#define NAME_SIGNALFD ANONYMOUS('[', 's', 'i', 'g', 'n', 'a', 'l', 'f')
#define NAME_INOTIFY ANONYMOUS('i', 'n', 'o', 't', 'i', 'f', 'y', 0)
#define NAME_RING ANONYMOUS('[', 'i', 'o', '_', 'u', 'r', 'i', 'n')

static __always_inline u64 name_of(struct file *file)
{
	u64 name = 0;

	bpf_probe_read_kernel(&name, sizeof(name),
			      FIELD(dentry, FIELD(file, file, f_path.dentry), d_name.name));
	/* What follows the name's end is not part of it. */
	if ((name & 0xffffffffffffffULL) == (NAME_INOTIFY & 0xffffffffffffffULL))
		return NAME_INOTIFY;
	return name;
}

static __always_inline u32 member_of(struct file *file, u8 *flags)
{
	struct inode *inode = FIELD(file, file, f_inode);
	u32 type = FIELD(inode, inode, i_mode) & S_IFMT;
	u64 magic;

	if (type == S_IFSOCK)
		return member_of_socket(file, flags);
	if (type == S_IFIFO)
		return PROFD_MEMBER_PIPE;
	magic = FIELD(super_block, FIELD(inode, inode, i_sb), s_magic);
	if (magic == PID_FS_MAGIC)
		return PROFD_MEMBER_PIDFD;
	if (magic != ANON_INODE_FS_MAGIC)
		return PROFD_MEMBER_FILE;
	switch (name_of(file)) {
	case NAME_EVENTFD:
		return PROFD_MEMBER_EVENTFD;
	case NAME_EPOLL:
		return PROFD_MEMBER_EPOLL;
	case NAME_TIMERFD:
		return PROFD_MEMBER_TIMERFD;
	case NAME_SIGNALFD:
		return PROFD_MEMBER_SIGNALFD;
	case NAME_INOTIFY:
		return PROFD_MEMBER_INOTIFY;
	}
	return PROFD_MEMBER_OTHER;
}

static __always_inline void add_member(struct profd_object *object, struct file *file)
{
	u32 member = member_of(file, &object->flags);

	barrier_var(member);
	if (member < PROFD_MEMBER_COUNT)
		object->members[member]++;
}

/* Looks at one file of an epoll set, and finds two more. */
static long add_epoll_item(u32 index, struct object_scratch **at)
{
	struct object_scratch *scratch = *at;
	u32 count = scratch->node_count;
	struct rb_node *node, *next[2] = {};
	struct epitem *item;

	if (!count || count > OBJECT_MEMBERS)
		return 1;
	barrier_var(count);
	count--;
	count &= OBJECT_MEMBERS - 1;
	node = scratch->nodes[count];
	next[0] = FIELD(rb_node, node, rb_left);
	next[1] = FIELD(rb_node, node, rb_right);
	if (next[0])
		scratch->nodes[count++] = next[0];
	if (next[1])
		scratch->nodes[count++ & (2 * OBJECT_MEMBERS - 1)] = next[1];
	scratch->node_count = count;
	item = (void *)node - bpf_core_field_offset(struct epitem, rbn);
	add_member(object_in(scratch), FIELD(epitem, item, ffd.file));
	return 0;
}

static __always_inline void describe_epoll(struct object_scratch *scratch, struct file *file)
{
	struct eventpoll *set = FIELD(file, file, private_data);

	object_in(scratch)->kind = PROFD_OBJECT_EPOLL;
	object_in(scratch)->number = 0;
	scratch->nodes[0] = FIELD(eventpoll, set, rbr.rb_root.rb_node);
	scratch->node_count = scratch->nodes[0] ? 1 : 0;
	bpf_loop(OBJECT_MEMBERS, add_epoll_item, &scratch, 0);
	if (scratch->node_count)
		object_in(scratch)->flags |= PROFD_OBJECT_MORE;
}

static __always_inline void describe_ring(struct profd_object *object, struct file *file)
{
	struct io_ring_ctx *ring = FIELD(file, file, private_data);

	object->kind = PROFD_OBJECT_RING;
	object->count =
		FIELD(io_ring_ctx, ring, cached_sq_head) - FIELD(io_ring_ctx, ring, cached_cq_tail);
	/* Not a description for each number. */
	if (object->count > OBJECT_MEMBERS) {
		object->count = OBJECT_MEMBERS;
		object->flags |= PROFD_OBJECT_MORE;
	}
}

/* Returns the bytes of text behind the description. */
static __always_inline u32 describe_file(struct object_scratch *scratch, u64 fd)
{
	struct profd_object *object = object_in(scratch);
	struct file *file = file_of(scratch->task, fd);
	struct inode *inode;
	u32 type;
	u64 magic;

	if (!file)
		return 0;
	inode = FIELD(file, file, f_inode);
	type = FIELD(inode, inode, i_mode) & S_IFMT;
	if (type == S_IFSOCK)
		return describe_socket(object, file, &scratch->text);
	magic = FIELD(super_block, FIELD(inode, inode, i_sb), s_magic);
	object->number = (u32)fd;
	if (magic == PIPEFS_MAGIC) {
		object->kind = PROFD_OBJECT_PIPE;
		object->number = 0;
		object->inode = FIELD(inode, inode, i_ino);
		return 0;
	}
	if (magic == ANON_INODE_FS_MAGIC || magic == PID_FS_MAGIC) {
		switch (name_of(file)) {
		case NAME_EPOLL:
			describe_epoll(scratch, file);
			return 0;
		case NAME_RING:
			describe_ring(object, file);
			return 0;
		}
		object->kind = PROFD_OBJECT_ANONYMOUS;
		bpf_probe_read_kernel_str(
			object->name, sizeof(object->name),
			FIELD(dentry, FIELD(file, file, f_path.dentry), d_name.name));
		if (magic == PID_FS_MAGIC)
			__builtin_memcpy(object->name, "[pidfd]", 8);
		return 0;
	}
	object->kind = PROFD_OBJECT_FILE;
	object->number = 0;
	return read_path(file, &scratch->text);
}

static long add_polled(u32 index, struct object_scratch **at)
{
	struct object_scratch *scratch = *at;
	struct file *file;
	s32 fd;

	index &= OBJECT_MEMBERS - 1;
	fd = scratch->polled[index].fd;
	if (index >= scratch->polled_count)
		return 1;
	file = fd < 0 ? NULL : file_of(scratch->task, fd);
	if (file)
		add_member(object_in(scratch), file);
	return 0;
}

static __always_inline u32 describe_polled(struct object_scratch *scratch, u64 count)
{
	struct profd_object *object = object_in(scratch);

	if (count == 1)
		return scratch->polled[0].fd < 0 ? 0
						 : describe_file(scratch, scratch->polled[0].fd);
	object->kind = PROFD_OBJECT_POLL;
	if (count > OBJECT_MEMBERS)
		object->flags |= PROFD_OBJECT_MORE;
	scratch->polled_count = count > OBJECT_MEMBERS ? OBJECT_MEMBERS : count;
	bpf_loop(OBJECT_MEMBERS, add_polled, &scratch, 0);
	return 0;
}

struct child_search {
	struct object_scratch *scratch;
	struct list_head *head;
	struct list_head *at;
	u32 wanted; /* 0: any */
	u32 level; /* of the PID namespace of the one who waits */
	struct task_struct *found;
};

static long look_at_child(u32 index, struct child_search *search)
{
	struct list_head *at = search->at;
	struct task_struct *child;
	struct pid *pid;
	struct upid number = {};

	if (!at || at == search->head)
		return 1;
	child = (void *)at - bpf_core_field_offset(struct task_struct, sibling);
	search->at = FIELD(list_head, at, next);
	object_in(search->scratch)->count++;
	if (!search->wanted) {
		search->found = child;
		return 0;
	}
	pid = FIELD(task_struct, child, thread_pid);
	if (!pid || !read_upid(pid, search->level, &number))
		return 0;
	if (number.nr != search->wanted)
		return 0;
	search->found = child;
	return 1;
}

static __always_inline void describe_child(struct object_scratch *scratch)
{
	struct task_struct *task = scratch->task;
	struct profd_object *object = object_in(scratch);
	struct list_head *head = (void *)task + bpf_core_field_offset(struct task_struct, children);
	struct child_search search = {.scratch = scratch, .head = head};
	struct task_struct *child;
	bool by_type = scratch->sysno == SYS_WAITID;
	u64 wanted = by_type ? scratch->arguments[1] : scratch->arguments[0];

	object->kind = PROFD_OBJECT_CHILD;
	if (by_type ? scratch->arguments[0] == P_PID : (s32)wanted > 0)
		search.wanted = (u32)wanted;
	search.level = FIELD(pid, FIELD(task_struct, task, thread_pid), level);
	if (search.level > 31)
		return;
	search.at = FIELD(list_head, head, next);
	bpf_loop(OBJECT_CHILDREN, look_at_child, &search, 0);
	child = search.found;
	if (!child || (!search.wanted && object->count != 1))
		return;
	object->count = 1;
	object->number = visible_number(FIELD(task_struct, child, thread_pid));
	bpf_probe_read_kernel(object->name, sizeof(object->name), &child->comm);
}

/* Describes what the thread in the scratch waits for. Returns whether there is anything. Neither
 * static nor inlined: the verifier follows it once.
 */
__noinline int describe_object(u32 slot)
{
	struct object_scratch *scratch = bpf_map_lookup_elem(&object_scratch, &slot);
	struct profd_object *object;
	u32 sysno, bytes = 0;

	if (!scratch)
		return 0;
	object = object_in(scratch);
	sysno = scratch->sysno;
	if (sysno >= OBJECT_SYSCALLS ||
	    bpf_probe_read_kernel(object, sizeof(*object), object_zeros))
		return 0;
	object->action = object_actions[sysno];
	switch (object->action) {
	case PROFD_ACTION_NONE:
	case PROFD_ACTION_SELECT:
		return 0;
	case PROFD_ACTION_POLL:
		bytes = describe_polled(scratch, (u32)scratch->arguments[1]);
		break;
	case PROFD_ACTION_CHILD:
		describe_child(scratch);
		break;
	default:
		bytes = describe_file(scratch, (u32)scratch->arguments[0]);
	}
	if (object->kind == PROFD_OBJECT_NONE)
		return 0;
	finish_object(scratch, bytes);
	return 1;
}

/* Describes what a thread waits for that is in this system call. NULL: nothing that is known. */
static __always_inline struct profd_stack_record *find_object(struct task_struct *task, u32 slot,
							      s32 sysno)
{
	struct object_scratch *scratch = bpf_map_lookup_elem(&object_scratch, &slot);
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct memory_mapping mapping = {};
	u32 number = sysno;
	u64 bytes;

	barrier_var(number);
	if (!scratch || !regs || number >= OBJECT_SYSCALLS || !object_actions[number])
		return NULL;
	scratch->task = task;
	scratch->sysno = sysno;
	scratch->arguments[0] = regs->di;
	scratch->arguments[1] = regs->si;
	scratch->arguments[2] = regs->dx;
	if (object_actions[number] == PROFD_ACTION_POLL) {
		bytes = (u64)(u32)regs->si * sizeof(struct object_polled);
		if (bytes > sizeof(scratch->polled))
			bytes = sizeof(scratch->polled);
		barrier_var(bytes);
		if (!bytes || bytes > sizeof(scratch->polled) ||
		    !is_readable(task, regs->di, NULL, &mapping) ||
		    regs->di + bytes > mapping.end ||
		    bpf_copy_from_user_task(scratch->polled, bytes, (void *)regs->di, task, 0))
			return NULL;
	}
	if (!describe_object(slot))
		return NULL;
	return &scratch->record;
}

/* Describes and sends what the thread waits for. Returns what stands for it as an argument; 0: not
 * known.
 */
static __always_inline u64 note_object(struct task_struct *task, s32 sysno)
{
	struct profd_stack_record *record = find_object(task, OBJECT_OF_TICK, sysno);

	if (!record)
		return 0;
	if (send_description(record, &objects_paid, PROFD_OBJECT_BURST, PROFD_OBJECTS_A_SECOND))
		return record->hash;
	lose(PROFD_LOSS_OBJECT, 1);
	return PROFD_OBJECT_BIT;
}

#endif /* PROFD_BPF_OBJECT_BPF_H_ */
