#include "daemon/ends/local_connections.h"

#include <netinet/tcp.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace profd {
namespace {

constexpr size_t kMostSockets = 65536;
constexpr uint32_t kNewSynReceived = 12;  // TCP_NEW_SYN_RECV of the kernel

// The connection is made as far as the other end can see, but no process has accepted it.
bool AwaitsAccept(const TcpSocket& socket) {
  return socket.inode == 0 && (socket.state == TCP_ESTABLISHED || socket.state == TCP_SYN_RECV ||
                               socket.state == kNewSynReceived);
}

}  // namespace

void LocalConnections::Want(const TcpEnds& ends) {
  wanted_.try_emplace(ends);
  if (ends.peer_port != 0) server_ports_.insert(ends.peer_port);
}

void LocalConnections::Add(const TcpSocket& socket) {
  const TcpEnds& ends = socket.ends;
  const auto index = static_cast<uint32_t>(sockets_.size());
  const bool listens = socket.state == TCP_LISTEN && server_ports_.contains(ends.local_port);
  bool kept = listens;
  if (listens) listening_[ends.local_port].push_back(index);
  if (socket.state != TCP_LISTEN) {
    // As a client asks, as a server does, and with neither port known.
    for (const bool own : {true, false}) {
      const TcpEnds near = own ? ends : ends.Turned();
      for (const int ports : {0, 1, 2, 3}) {
        TcpEnds key = near;
        if ((ports & 1) == 0) key.local_port = 0;
        if ((ports & 2) == 0) key.peer_port = 0;
        const auto asked = wanted_.find(key);
        if (asked == wanted_.end()) continue;
        kept = true;
        if (own) asked->second.push_back(index);
      }
    }
    if (kept) by_ends_.try_emplace(ends, index);
  }
  if (!kept) return;
  sockets_.push_back(socket);
  full_ = sockets_.size() >= kMostSockets;
}

bool LocalConnections::Read(const std::string& proc, int32_t pid, TimeBudget* budget) {
  for (const absl::string_view file : {"tcp", "tcp6"}) {
    if (!budget->LeftNow()) {
      complete_ = false;
      break;
    }
    const absl::StatusOr<bool> whole = ReadTcpTable(
        absl::StrCat(proc, "/", pid, "/net/", file), [&] { return !full_ && budget->Left(); },
        [&](const TcpSocket& socket) {
          if (!full_) Add(socket);
        });
    // A kernel without IPv6 has no second one.
    const bool absent = absl::IsNotFound(whole.status()) && file == "tcp6";
    if (!absent && (!whole.ok() || !*whole)) complete_ = false;
  }
  complete_ = complete_ && !full_;
  return complete_;
}

std::span<const uint32_t> LocalConnections::NearEnds(const TcpEnds& wanted) const {
  const auto found = wanted_.find(wanted);
  return found == wanted_.end() ? std::span<const uint32_t>() : found->second;
}

std::vector<uint64_t> LocalConnections::OtherEnds(const TcpSocket& near) const {
  std::vector<uint64_t> inodes;
  const auto other = by_ends_.find(near.ends.Turned());
  const TcpSocket* const far = other == by_ends_.end() ? nullptr : &sockets_[other->second];
  if (far != nullptr && far->inode != 0) return {far->inode};
  // Its queue of connections may be full, too: then there is nothing of this one.
  if (far != nullptr ? !AwaitsAccept(*far) : near.state != TCP_SYN_SENT) return {};
  const auto listening = listening_.find(near.ends.peer_port);
  if (listening == listening_.end()) return {};
  for (const uint32_t index : listening->second) {
    const TcpSocket& socket = sockets_[index];
    const bool fits = socket.ends.local == near.ends.peer || IsAnyAddress(socket.ends.local);
    if (fits && socket.inode != 0) inodes.push_back(socket.inode);
  }
  return inodes;
}

}  // namespace profd
