/* Sockets that are waited for. */
#ifndef PROFD_BPF_SOCKET_BPF_H_
#define PROFD_BPF_SOCKET_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "abi.h"
#include "field.bpf.h"
#include "path.bpf.h"
#include "target.bpf.h"

#define UNIX_PATH_OFFSET 2 /* of a path in a sockaddr_un */
#define UNIX_PATH_MAX 108

/* What is known of a TCP connection: PROFD_OBJECT_* flags.
 *
 * Who made it: for a connect without a bind the kernel chooses the port, and marks its bucket as
 * not to be shared by binds. What is accepted has the port of the listener.
 *
 * Whose turn it is: snd_wl1 is where the peer's data stood as it acknowledged ours. If nothing came
 * since, our data was the last on the connection.
 */
static __always_inline u8 tcp_flags(struct sock *sk)
{
	struct inet_connection_sock *connection = (void *)sk;
	struct tcp_sock *tcp = (void *)sk;
	struct inet_bind_bucket *bucket = FIELD(inet_connection_sock, connection, icsk_bind_hash);
	u8 flags = PROFD_OBJECT_CONNECTED;

	if (bucket && FIELD(inet_bind_bucket, bucket, fastreuse) < 0)
		flags |= PROFD_OBJECT_CLIENT;
	if (FIELD(tcp_sock, tcp, snd_una) != FIELD(tcp_sock, tcp, write_seq) ||
	    FIELD(tcp_sock, tcp, snd_wl1) == FIELD(tcp_sock, tcp, rcv_nxt))
		flags |= PROFD_OBJECT_SENT_LAST;
	return flags;
}

static __always_inline struct sock *sock_of(struct file *file)
{
	struct socket *socket = FIELD(file, file, private_data);

	return FIELD(socket, socket, sk);
}

/* The kind of a socket in a set. */
static __always_inline u32 member_of_socket(struct file *file, u8 *flags)
{
	struct sock *sk = sock_of(file);
	u16 family = FIELD(sock, sk, __sk_common.skc_family);
	u8 tcp;

	if (FIELD(sock, sk, __sk_common.skc_state) == TCP_LISTEN &&
	    FIELD(sock, sk, sk_type) == SOCK_STREAM)
		return PROFD_MEMBER_LISTENER;
	if (family == AF_UNIX)
		return PROFD_MEMBER_UNIX;
	if ((family != AF_INET && family != AF_INET6) ||
	    FIELD(sock, sk, sk_protocol) != IPPROTO_TCP)
		return PROFD_MEMBER_SOCKET;
	tcp = tcp_flags(sk);
	if (!(tcp & PROFD_OBJECT_CLIENT))
		return PROFD_MEMBER_SERVER;
	if (tcp & PROFD_OBJECT_SENT_LAST)
		*flags |= PROFD_OBJECT_IN_FLIGHT;
	return PROFD_MEMBER_CLIENT;
}

/* The process that had the other end as the connection was made. */
static __always_inline void describe_peer(struct profd_object *object, struct pid *pid)
{
	struct hlist_node *first;
	struct task_struct *peer;

	object->number = visible_number(pid);
	first = pid ? FIELD(pid, pid, tasks[PIDTYPE_TGID].first) : NULL;
	if (!first)
		return;
	peer = (void *)first - bpf_core_field_offset(struct task_struct, pid_links[PIDTYPE_TGID]);
	bpf_probe_read_kernel(object->name, sizeof(object->name), &peer->comm);
}

/* Writes the address of a Unix socket, or of its peer. Returns its length. */
static __always_inline u32 describe_unix(struct profd_object *object, struct sock *sk,
					 struct path_text *text)
{
	struct unix_sock *own = (void *)sk;
	struct unix_sock *peer = (void *)FIELD(unix_sock, sk, peer);
	struct unix_address *address = FIELD(unix_sock, own, addr);
	char *path;
	u8 first = 0;
	u32 length;

	object->kind = PROFD_OBJECT_UNIX;
	describe_peer(object, FIELD(sock, sk, sk_peer_pid));
	if (!address && peer) {
		address = FIELD(unix_sock, peer, addr);
		if (address)
			object->flags |= PROFD_OBJECT_CLIENT;
	}
	if (!address)
		return 0;
	/* Clients come and go. */
	if (!(object->flags & PROFD_OBJECT_CLIENT))
		object->number = 0;
	length = FIELD(unix_address, address, len);
	if (length <= UNIX_PATH_OFFSET || length > UNIX_PATH_OFFSET + UNIX_PATH_MAX)
		return 0;
	length -= UNIX_PATH_OFFSET;
	/* The sockaddr_un follows the length and a count. */
	path = (char *)address + 8 + UNIX_PATH_OFFSET;
	bpf_probe_read_kernel(&first, 1, path);
	if (!first) {
		object->flags |= PROFD_OBJECT_ABSTRACT;
		path++;
		length--;
	}
	barrier_var(length);
	if (!length || length > UNIX_PATH_MAX || bpf_probe_read_kernel(text->names, length, path))
		return 0;
	return length;
}

static __always_inline void describe_inet(struct profd_object *object, struct sock *sk)
{
	bool tcp = object->protocol == IPPROTO_TCP && object->type == SOCK_STREAM;
	u8 state = FIELD(sock, sk, __sk_common.skc_state);

	object->kind = PROFD_OBJECT_INET;
	object->local_port = FIELD(sock, sk, __sk_common.skc_num);
	object->peer_port = bpf_ntohs(FIELD(sock, sk, __sk_common.skc_dport));
	if (object->family == AF_INET) {
		*(u32 *)object->local = FIELD(sock, sk, __sk_common.skc_rcv_saddr);
		*(u32 *)object->peer = FIELD(sock, sk, __sk_common.skc_daddr);
	} else {
		bpf_core_read(object->local, sizeof(object->local),
			      &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(object->peer, sizeof(object->peer), &sk->__sk_common.skc_v6_daddr);
	}
	if (!tcp) {
		/* A port that the kernel chose, most likely: it was not asked for one. */
		if (object->peer_port) {
			object->flags |= PROFD_OBJECT_CONNECTED;
			object->local_port = 0;
		}
		return;
	}
	if (state == TCP_LISTEN) {
		object->flags |= PROFD_OBJECT_LISTENS;
		return;
	}
	object->flags |= tcp_flags(sk);
	if (object->flags & PROFD_OBJECT_CLIENT || state == TCP_SYN_SENT)
		object->local_port = 0;
	else
		object->peer_port = 0;
}

/* Returns the bytes of text. */
static __always_inline u32 describe_socket(struct profd_object *object, struct file *file,
					   struct path_text *text)
{
	struct sock *sk = sock_of(file);

	if (!sk)
		return 0;
	object->family = FIELD(sock, sk, __sk_common.skc_family);
	object->type = FIELD(sock, sk, sk_type);
	object->protocol = FIELD(sock, sk, sk_protocol);
	if (object->family == AF_INET || object->family == AF_INET6) {
		describe_inet(object, sk);
		return 0;
	}
	if (object->family == AF_UNIX) {
		if (FIELD(sock, sk, __sk_common.skc_state) == TCP_LISTEN)
			object->flags |= PROFD_OBJECT_LISTENS;
		return describe_unix(object, sk, text);
	}
	object->kind = PROFD_OBJECT_SOCKET;
	return 0;
}

#endif /* PROFD_BPF_SOCKET_BPF_H_ */
