/* Objects: what a thread waits for, as of the visit that saw the wait first. */
#ifndef PROFD_BPF_ABI_OBJECT_H_
#define PROFD_BPF_ABI_OBJECT_H_

#include "base.h"
#include "stack.h"

enum profd_object_kind {
	PROFD_OBJECT_NONE = 0,
	PROFD_OBJECT_FILE = 1, /* `text`: the names on its path, the last one first */
	PROFD_OBJECT_ANONYMOUS =
		2, /* `name`: "[eventfd]", "[timerfd]", ...; `number`: descriptor */
	PROFD_OBJECT_PIPE = 3, /* `inode` */
	PROFD_OBJECT_INET = 4,
	/* `text`: the address; `name`: the peer's process; `number`: its PID, not of clients. */
	PROFD_OBJECT_UNIX = 5,
	PROFD_OBJECT_SOCKET = 6, /* of another family */
	PROFD_OBJECT_EPOLL = 7, /* `members` */
	PROFD_OBJECT_POLL = 8, /* `members` */
	PROFD_OBJECT_CHILD = 9, /* `name`, `number`: the child; without: any of `count` */
	PROFD_OBJECT_RING = 10, /* an io_uring; `number`: descriptor; `count`: requests in flight */
	/* Of waits for a CPU: */
	PROFD_OBJECT_OCCUPANT = 11, /* who ran there: `name`, `number`: the process */
	PROFD_OBJECT_IDLE_CPU = 12, /* nobody: the thread was about to run */
	PROFD_OBJECT_QUOTA = 13, /* the CPU quota of a cgroup ran out; `name`: the cgroup's */
};

enum profd_object_action {
	PROFD_ACTION_NONE = 0, /* nothing is waited for that could be described */
	PROFD_ACTION_READ = 1,
	PROFD_ACTION_WRITE = 2,
	PROFD_ACTION_ACCEPT = 3,
	PROFD_ACTION_CONNECT = 4,
	PROFD_ACTION_SYNC = 5,
	PROFD_ACTION_ACCESS = 6, /* of a file's size or names */
	PROFD_ACTION_POLL = 7,
	PROFD_ACTION_SELECT = 8,
	PROFD_ACTION_CHILD = 9,
	PROFD_ACTION_COUNT = 10,
};

/* `flags` */
#define PROFD_OBJECT_LISTENS 0x01
#define PROFD_OBJECT_CLIENT 0x02 /* this host made the connection */
/* The last data on the connection went out, and all that came before it was answered. */
#define PROFD_OBJECT_SENT_LAST 0x04
#define PROFD_OBJECT_CONNECTED 0x08
#define PROFD_OBJECT_MORE 0x10 /* there are more members than were counted */
/* Of sets: a connection that this host made has a request in flight. */
#define PROFD_OBJECT_IN_FLIGHT 0x20
#define PROFD_OBJECT_ABSTRACT 0x40 /* an address without a file */
#define PROFD_OBJECT_KERNEL 0x80 /* of occupants: a thread of the kernel */

/* What a set has. */
enum profd_member {
	PROFD_MEMBER_LISTENER = 0,
	PROFD_MEMBER_CLIENT = 1, /* TCP connections that this host made */
	PROFD_MEMBER_SERVER = 2, /* others of TCP */
	PROFD_MEMBER_UNIX = 3,
	PROFD_MEMBER_SOCKET = 4, /* other sockets */
	PROFD_MEMBER_PIPE = 5,
	PROFD_MEMBER_EVENTFD = 6,
	PROFD_MEMBER_TIMERFD = 7,
	PROFD_MEMBER_SIGNALFD = 8,
	PROFD_MEMBER_INOTIFY = 9,
	PROFD_MEMBER_PIDFD = 10,
	PROFD_MEMBER_EPOLL = 11,
	PROFD_MEMBER_FILE = 12,
	PROFD_MEMBER_OTHER = 13,
	PROFD_MEMBER_COUNT = 14,
};

#define PROFD_OBJECT_NAME 16
/* A description. It is sent and kept as a stack is: its words are the kernel's frames of one, and
 * `text` is as long as there are words left.
 */
struct profd_object {
	profd_u8 kind; /* enum profd_object_kind */
	profd_u8 action; /* enum profd_object_action */
	profd_u8 flags;
	profd_u8 protocol; /* IPPROTO_*, NETLINK_* */
	profd_u16 family; /* AF_* */
	profd_u16 type; /* SOCK_* */
	profd_u32 number;
	profd_u32 count;
	profd_u64 inode;
	profd_u8 local[16], peer[16]; /* addresses; of IPv4 the first four bytes */
	/* Host order. 0: not known, or any: ports that clients got from their kernel are left out.
	 */
	profd_u16 local_port, peer_port;
	profd_u32 pad;
	profd_u8 members[16]; /* by enum profd_member */
	char name[PROFD_OBJECT_NAME];
};
#define PROFD_OBJECT_WORDS (sizeof(struct profd_object) / 8)
#define PROFD_OBJECT_TEXT 512

/* What an argument of a wait with this bit says is the hash of a description. The bit alone stands
 * for objects that were not described, because there were too many new ones.
 */
#define PROFD_OBJECT_BIT (1ULL << 63)

/* New descriptions: so many at once, and after that so many a second. */
#define PROFD_OBJECT_BURST 1024
#define PROFD_OBJECTS_A_SECOND 16
/* The same for processes that had a CPU; those beyond are told by their names. */
#define PROFD_OCCUPANT_BURST 256
#define PROFD_OCCUPANTS_A_SECOND 4

PROFD_STATIC_ASSERT(sizeof(struct profd_object) == 96, "object size");

#endif /* PROFD_BPF_ABI_OBJECT_H_ */
