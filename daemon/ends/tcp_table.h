// The TCP sockets of a network namespace, as /proc/PID/net/tcp and tcp6 list them.
#ifndef PROFD_DAEMON_ENDS_TCP_TABLE_H_
#define PROFD_DAEMON_ENDS_TCP_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/status.h"

namespace profd {

// Of IPv6. An address of IPv4 is mapped into it, as sockets for both see it.
using InetAddress = std::array<uint8_t, 16>;
InetAddress MapIpv4(const uint8_t* bytes);
// 127.0.0.0/8 or ::1.
bool IsLoopback(const InetAddress& address);
// 0.0.0.0 or ::.
bool IsAnyAddress(const InetAddress& address);

// Both ends of a connection, as one of them sees it.
struct TcpEnds {
  InetAddress local{}, peer{};
  uint16_t local_port = 0, peer_port = 0;  // host order

  TcpEnds Turned() const {
    return {.local = peer, .peer = local, .local_port = peer_port, .peer_port = local_port};
  }
  friend bool operator==(const TcpEnds&, const TcpEnds&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const TcpEnds& e) {
    return H::combine(std::move(h), e.local, e.peer, e.local_port, e.peer_port);
  }
};

struct TcpSocket {
  TcpEnds ends;
  uint32_t state = 0;  // TCP_ESTABLISHED, ...
  uint64_t inode = 0;  // 0: no process has it
};

// A line of such a file. None for the heading and for malformed text.
std::optional<TcpSocket> ParseTcpLine(std::string_view line);

// Hands out each socket that the file lists. `go_on` is asked for every 64 KiB; false ends the
// reading early. Returns whether the file was read to its end.
absl::StatusOr<bool> ReadTcpTable(const std::string& path, const std::function<bool()>& go_on,
                                  const std::function<void(const TcpSocket&)>& add);

}  // namespace profd

#endif  // PROFD_DAEMON_ENDS_TCP_TABLE_H_
