#include "daemon/ends/tcp_table.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/fd.h"

namespace profd {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kWordDigits = 8;  // of 32 bits in hexadecimal
// Fields of a line: proc_net_tcp(5).
constexpr size_t kLocal = 1, kPeer = 2, kState = 3, kInode = 9;

std::optional<uint32_t> ParseHex(absl::string_view text) {
  uint32_t number = 0;
  if (text.empty() || text.size() > kWordDigits || !absl::SimpleHexAtoi(text, &number)) {
    return std::nullopt;
  }
  return number;
}

// "0100007F:1538": words of 32 bits as they lie in memory.
bool ParseEnd(absl::string_view text, InetAddress* address, uint16_t* port) {
  const size_t colon = text.find(':');
  if (colon != kWordDigits && colon != 4 * kWordDigits) return false;
  uint8_t bytes[16] = {};
  for (size_t i = 0; i < colon / kWordDigits; i++) {
    const std::optional<uint32_t> word = ParseHex(text.substr(i * kWordDigits, kWordDigits));
    if (!word) return false;
    std::memcpy(bytes + 4 * i, &*word, 4);
  }
  const std::optional<uint32_t> number = ParseHex(text.substr(colon + 1));
  if (!number || *number > std::numeric_limits<uint16_t>::max()) return false;
  *port = static_cast<uint16_t>(*number);
  if (colon == kWordDigits) {
    *address = MapIpv4(bytes);
  } else {
    std::copy(std::begin(bytes), std::end(bytes), address->begin());
  }
  return true;
}

bool IsMapped(const InetAddress& address) {
  return std::equal(address.begin(), address.begin() + 12, MapIpv4(InetAddress{}.data()).begin());
}

}  // namespace

InetAddress MapIpv4(const uint8_t* bytes) {
  InetAddress address{};
  address[10] = address[11] = 0xff;
  std::copy_n(bytes, 4, address.begin() + 12);
  return address;
}

bool IsLoopback(const InetAddress& address) {
  if (IsMapped(address)) return address[12] == 127;
  InetAddress loopback{};
  loopback[15] = 1;
  return address == loopback;
}

bool IsAnyAddress(const InetAddress& address) {
  return address == InetAddress{} || address == MapIpv4(InetAddress{}.data());
}

std::optional<TcpSocket> ParseTcpLine(std::string_view line) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(line.data(), line.size()), ' ', absl::SkipEmpty());
  if (fields.size() <= kInode) return std::nullopt;
  TcpSocket socket;
  const std::optional<uint32_t> state = ParseHex(fields[kState]);
  if (!state || !ParseEnd(fields[kLocal], &socket.ends.local, &socket.ends.local_port) ||
      !ParseEnd(fields[kPeer], &socket.ends.peer, &socket.ends.peer_port) ||
      !absl::SimpleAtoi(fields[kInode], &socket.inode)) {
    return std::nullopt;
  }
  socket.state = *state;
  return socket;
}

absl::StatusOr<bool> ReadTcpTable(const std::string& path, const std::function<bool()>& go_on,
                                  const std::function<void(const TcpSocket&)>& add) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenReadOnly(path));
  std::string text;
  while (go_on()) {
    const size_t rest = text.size();
    text.resize(rest + kReadBytes);
    const ssize_t n = read(fd.get(), text.data() + rest, kReadBytes);
    if (n < 0 && errno != EINTR) return ErrnoStatus(absl::StrCat("read ", path), errno);
    text.resize(rest + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return true;
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (const auto socket = ParseTcpLine({text.data() + begin, end - begin})) add(*socket);
    }
    text.erase(0, begin);
    // No line is so long.
    if (text.size() > kReadBytes) text.clear();
  }
  return false;
}

}  // namespace profd
