// Messages with a file descriptor.
#ifndef PROFD_DAEMON_LINES_DESCRIPTOR_MESSAGE_H_
#define PROFD_DAEMON_LINES_DESCRIPTOR_MESSAGE_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "daemon/base/fd.h"

namespace profd {

// Sends `bytes`, and `fd` unless it is negative. False if the other end is gone, or does not take
// it; without `wait`, also if the socket is full.
inline bool SendWithDescriptor(int socket, std::span<const uint8_t> bytes, int fd,
                               bool wait = true) {
  iovec data = {.iov_base = const_cast<uint8_t*>(bytes.data()), .iov_len = bytes.size()};  // NOLINT
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = room;
    message.msg_controllen = sizeof(room);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

// Receives a message of at most `room` bytes; returns its size, 0 or less at the end and for
// errors. `fd` may be null: then no descriptor is taken.
inline ssize_t ReceiveWithDescriptor(int socket, std::span<uint8_t> bytes, UniqueFd* fd) {
  iovec data = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd != nullptr) {
    message.msg_control = room;
    message.msg_controllen = sizeof(room);
  }
  ssize_t size = -1;
  do {
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return size;
  const cmsghdr* const header = fd == nullptr ? nullptr : CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof(received));
    fd->reset(received);
  }
  return (message.msg_flags & MSG_TRUNC) != 0 ? -1 : size;
}

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_DESCRIPTOR_MESSAGE_H_
