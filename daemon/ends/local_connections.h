// The TCP connections of a network namespace of which both ends are in it.
#ifndef PROFD_DAEMON_ENDS_LOCAL_CONNECTIONS_H_
#define PROFD_DAEMON_ENDS_LOCAL_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/base/time_budget.h"
#include "daemon/ends/tcp_table.h"

namespace profd {

class LocalConnections {
 public:
  // Connections that one end sees so, a port 0 being any. Of others nothing is kept.
  void Want(const TcpEnds& ends);
  // What the network namespace of the process has now. `proc` is the path of /proc. Returns false
  // if time ran out or there were too many; the rest is missing then.
  bool Read(const std::string& proc, int32_t pid, TimeBudget* budget);

  // All that were kept. An index into it is valid as long as nothing is read.
  std::span<const TcpSocket> sockets() const { return sockets_; }
  // The near ends of connections that were wanted so.
  std::span<const uint32_t> NearEnds(const TcpEnds& wanted) const;
  // The inodes of the sockets at the other end of a near end. A connection that was not accepted
  // yet is the listening socket's.
  std::vector<uint64_t> OtherEnds(const TcpSocket& near) const;
  // Whether all that Read was to read is there.
  bool complete() const { return complete_; }

 private:
  void Add(const TcpSocket& socket);

  absl::flat_hash_map<TcpEnds, std::vector<uint32_t>> wanted_;  // to its near ends
  absl::flat_hash_set<uint16_t> server_ports_;
  std::vector<TcpSocket> sockets_;
  absl::flat_hash_map<TcpEnds, uint32_t> by_ends_;  // of sockets_, but for listening ones
  absl::flat_hash_map<uint16_t, std::vector<uint32_t>> listening_;  // by port
  bool full_ = false;
  bool complete_ = true;
};

}  // namespace profd

#endif  // PROFD_DAEMON_ENDS_LOCAL_CONNECTIONS_H_
