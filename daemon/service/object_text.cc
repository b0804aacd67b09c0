#include "daemon/service/object_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr std::string_view kOtherObjectsText = "[other objects]";

// Singular and plural, by enum profd_member.
constexpr std::array<std::pair<std::string_view, std::string_view>, PROFD_MEMBER_COUNT> kMembers = {
    {{"listening socket", "listening sockets"},
     {"connection made", "connections made"},
     {"connection accepted", "connections accepted"},
     {"Unix socket", "Unix sockets"},
     {"socket", "sockets"},
     {"pipe", "pipes"},
     {"eventfd", "eventfds"},
     {"timerfd", "timerfds"},
     {"signalfd", "signalfds"},
     {"inotify", "inotifies"},
     {"pidfd", "pidfds"},
     {"epoll", "epolls"},
     {"file", "files"},
     {"other", "others"}}};

// By enum profd_object_action.
constexpr std::array<std::string_view, PROFD_ACTION_COUNT> kActions = {
    "", "reading", "writing", "accepting", "connecting", "syncing", "", "polled", "polled", ""};

std::string_view ActionOf(const profd_object& object) {
  return object.action < kActions.size() ? kActions[object.action] : std::string_view();
}

std::string WithAction(const profd_object& object, std::string text) {
  const std::string_view action = ActionOf(object);
  return action.empty() ? text : absl::StrCat(text, ", ", std::string(action));
}

// The path whose names these are, the last one first, each but maybe the last with a NUL.
std::string PathOf(std::string_view names) {
  const bool cut = names.size() >= PROFD_OBJECT_TEXT;
  std::vector<absl::string_view> parts = absl::StrSplit(
      absl::string_view(names.data(), names.size()), absl::ByChar('\0'), absl::SkipEmpty());
  // The outermost may be cut.
  if (cut && !parts.empty()) parts.pop_back();
  std::reverse(parts.begin(), parts.end());
  return CleanText(absl::StrCat(cut ? "..." : "", "/", absl::StrJoin(parts, "/")), kMaxPathText);
}

std::string AddressText(const profd_object& object, const uint8_t (&bytes)[16], uint16_t port) {
  char text[INET6_ADDRSTRLEN] = "?";
  const bool mapped = object.family == AF_INET6 &&
                      std::equal(bytes, bytes + 10, std::array<uint8_t, 10>{}.begin()) &&
                      bytes[10] == 0xff && bytes[11] == 0xff;
  const bool six = object.family == AF_INET6 && !mapped;
  inet_ntop(six ? AF_INET6 : AF_INET, mapped ? bytes + 12 : bytes, text, sizeof(text));
  if (port == 0) return text;
  return six ? absl::StrCat("[", text, "]:", port) : absl::StrCat(text, ":", port);
}

InetAddress ToInetAddress(const profd_object& object, const uint8_t (&bytes)[16]) {
  if (object.family != AF_INET6) return MapIpv4(bytes);
  InetAddress address;
  std::copy(std::begin(bytes), std::end(bytes), address.begin());
  return address;
}

// Where the other end is on this host. Who connects to an address of the own host has the same
// address, or is on the loopback.
std::optional<NearEnd> LocalConnection(const profd_object& object) {
  const TcpEnds ends = {.local = ToInetAddress(object, object.local),
                        .peer = ToInetAddress(object, object.peer),
                        .local_port = object.local_port,
                        .peer_port = object.peer_port};
  const bool local = ends.local == ends.peer || (IsLoopback(ends.local) && IsLoopback(ends.peer));
  if (!local || IsAnyAddress(ends.peer)) return std::nullopt;
  return NearEnd{.connection = ends};
}

WaitObject InetObject(const profd_object& object) {
  const bool tcp = object.protocol == IPPROTO_TCP && object.type == SOCK_STREAM;
  const bool client = (object.flags & PROFD_OBJECT_CLIENT) != 0;
  const bool sent = tcp && (object.flags & PROFD_OBJECT_SENT_LAST) != 0;
  const std::string protocol = tcp ? "tcp"
                               : object.protocol == IPPROTO_UDP
                                   ? "udp"
                                   : absl::StrCat("ip protocol ", object.protocol);
  const std::string local = AddressText(object, object.local, object.local_port);
  const std::string peer = AddressText(object, object.peer, object.peer_port);
  WaitObject out;
  if ((object.flags & PROFD_OBJECT_LISTENS) != 0) {
    out.text = absl::StrCat(protocol, " ", local, " (listening)");
    out.turn = ObjectTurn::kListens;
  } else if ((object.flags & PROFD_OBJECT_CONNECTED) == 0) {
    out.text = absl::StrCat(protocol, " ", local);
  } else {
    // Of a connection that was accepted only the local port is there.
    out.text = absl::StrCat(protocol, " ", local, object.peer_port != 0 ? " -> " : " <- ", peer);
    const std::optional<NearEnd> end = tcp ? LocalConnection(object) : std::nullopt;
    if (end) out.near = {.end = *end, .at = out.text.size()};
  }
  out.text = WithAction(object, std::move(out.text));
  const bool reads = object.action == PROFD_ACTION_READ || object.action == PROFD_ACTION_POLL;
  if (!sent || !reads) return out;
  out.turn = client ? ObjectTurn::kOfPeer : ObjectTurn::kNoRequest;
  absl::StrAppend(&out.text, client ? ", request in flight" : ", no request");
  return out;
}

WaitObject UnixObject(const profd_object& object, std::string_view address) {
  std::string name = CleanText(address, kMaxPathText);
  if ((object.flags & PROFD_OBJECT_ABSTRACT) != 0) name = absl::StrCat("@", name);
  std::string peer =
      CleanText({object.name, strnlen(object.name, sizeof(object.name))}, kMaxNameText);
  if (!peer.empty() && object.number != 0) absl::StrAppend(&peer, " (", object.number, ")");
  const bool client = (object.flags & PROFD_OBJECT_CLIENT) != 0;
  WaitObject out;
  if ((object.flags & PROFD_OBJECT_LISTENS) != 0) {
    out.text = absl::StrCat("unix ", name, " (listening)");
    out.turn = ObjectTurn::kListens;
  } else {
    out.text = name.empty() ? "unix socket" : absl::StrCat("unix ", name);
    if (!peer.empty()) absl::StrAppend(&out.text, client ? " -> " : " <- ", peer);
    // Who polls nothing but one connection that it made waits for an answer.
    if (client && object.action == PROFD_ACTION_POLL) out.turn = ObjectTurn::kOfPeer;
  }
  out.text = WithAction(object, std::move(out.text));
  return out;
}

WaitObject PipeObject(const profd_object& object) {
  WaitObject out;
  out.text = absl::StrCat("pipe ", object.inode);
  if (object.inode != 0) {
    out.near = {.end = {.pipe = object.inode,
                        .reads = object.action == PROFD_ACTION_READ,
                        .writes = object.action == PROFD_ACTION_WRITE},
                .at = out.text.size()};
  }
  out.text = WithAction(object, std::move(out.text));
  return out;
}

WaitObject SetObject(const profd_object& object) {
  std::vector<std::string> parts;
  uint32_t all = 0;
  for (size_t i = 0; i < kMembers.size(); i++) {
    const uint32_t count = object.members[i];
    all += count;
    if (count == 0) continue;
    parts.push_back(count == 1 ? std::string(kMembers[i].first)
                               : absl::StrCat(count, " ", std::string(kMembers[i].second)));
  }
  WaitObject out;
  out.text = absl::StrCat(object.kind == PROFD_OBJECT_EPOLL ? "epoll of " : "poll of ",
                          (object.flags & PROFD_OBJECT_MORE) != 0 ? "more than " : "", all,
                          all > 0 ? ": " : "", absl::StrJoin(parts, ", "));
  if ((object.flags & PROFD_OBJECT_IN_FLIGHT) == 0) return out;
  absl::StrAppend(&out.text, ", request in flight");
  out.turn = ObjectTurn::kOfPeer;
  return out;
}

WaitObject AnonymousObject(const profd_object& object) {
  std::string name =
      CleanText({object.name, strnlen(object.name, sizeof(object.name))}, kMaxNameText);
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  WaitObject out;
  if (name == "timerfd") out.turn = ObjectTurn::kTimer;
  if (name == "signalfd" || name == "inotify") out.turn = ObjectTurn::kEvents;
  if (object.action != PROFD_ACTION_READ) out.turn = ObjectTurn::kUnknown;
  out.text = WithAction(object, absl::StrCat(name, " ", object.number));
  return out;
}

std::string ChildText(const profd_object& object) {
  const std::string name =
      CleanText({object.name, strnlen(object.name, sizeof(object.name))}, kMaxNameText);
  if (!name.empty() && object.number != 0) {
    return absl::StrCat("child ", name, " (", object.number, ")");
  }
  if (!name.empty()) return absl::StrCat("child ", name);
  return object.count == 0 ? "children" : absl::StrCat("any of ", object.count, " children");
}

std::string RingText(const profd_object& object) {
  const bool more = (object.flags & PROFD_OBJECT_MORE) != 0;
  return absl::StrCat("io_uring ", object.number, ", ", more ? "more than " : "", object.count,
                      object.count == 1 ? " request in flight" : " requests in flight");
}

WaitObject CpuObject(CpuHolder holder) {
  WaitObject out;
  switch (holder.kind) {
    case CpuHolder::Kind::kQuota:
      out.text = holder.name.empty() ? "CPU quota" : absl::StrCat("CPU quota of ", holder.name);
      break;
    case CpuHolder::Kind::kKernel:
      out.text = absl::StrCat("[", holder.name, "]");
      break;
    case CpuHolder::Kind::kProcess:
      out.text = holder.name;
      if (holder.pid != 0) absl::StrAppend(&out.text, " (", holder.pid, ")");
      if (!holder.thread.empty()) absl::StrAppend(&out.text, ", thread ", holder.thread);
      break;
    case CpuHolder::Kind::kIdle:
    case CpuHolder::Kind::kUnknown:
      out.text = "[idle CPU]";
  }
  out.holder = std::move(holder);
  return out;
}

WaitObject OccupantObject(const profd_object& object, std::string_view thread) {
  CpuHolder holder;
  holder.name = CleanText({object.name, strnlen(object.name, sizeof(object.name))}, kMaxNameText);
  holder.kind = CpuHolder::Kind::kKernel;
  if ((object.flags & PROFD_OBJECT_KERNEL) == 0) {
    holder.kind = CpuHolder::Kind::kProcess;
    holder.pid = static_cast<int32_t>(std::min<uint32_t>(object.number, INT32_MAX));
    holder.thread = CleanText(thread, kMaxNameText);
    if (holder.thread == holder.name) holder.thread.clear();
  }
  return CpuObject(std::move(holder));
}

}  // namespace

WaitObject DescribeObject(const StackTrace& description) {
  profd_object object;
  const size_t bytes = description.frames.size() * sizeof(uint64_t);
  if (bytes < sizeof(object)) return {};
  std::memcpy(&object, description.frames.data(), sizeof(object));
  const auto* text = reinterpret_cast<const char*>(description.frames.data()) + sizeof(object);
  const size_t room = bytes - sizeof(object);
  switch (object.kind) {
    case PROFD_OBJECT_FILE: {
      const std::string path = PathOf({text, room});
      const bool terminal = path.starts_with("/dev/pts/") || path.starts_with("/dev/tty");
      return {.text = WithAction(object, path),
              .turn = terminal && object.action == PROFD_ACTION_READ ? ObjectTurn::kTerminal
                                                                     : ObjectTurn::kUnknown};
    }
    case PROFD_OBJECT_ANONYMOUS:
      return AnonymousObject(object);
    case PROFD_OBJECT_PIPE:
      return PipeObject(object);
    case PROFD_OBJECT_INET:
      return InetObject(object);
    case PROFD_OBJECT_UNIX:
      return UnixObject(object, {text, strnlen(text, room)});
    case PROFD_OBJECT_SOCKET:
      return {.text = WithAction(object, object.family == AF_NETLINK
                                             ? "netlink socket"
                                             : absl::StrCat("socket of family ", object.family))};
    case PROFD_OBJECT_EPOLL:
    case PROFD_OBJECT_POLL:
      return SetObject(object);
    case PROFD_OBJECT_CHILD:
      return {.text = ChildText(object)};
    case PROFD_OBJECT_RING:
      return {.text = RingText(object)};
    case PROFD_OBJECT_OCCUPANT:
      return OccupantObject(object, {text, strnlen(text, room)});
    case PROFD_OBJECT_IDLE_CPU:
      return CpuObject({.kind = CpuHolder::Kind::kIdle});
    case PROFD_OBJECT_QUOTA:
      return CpuObject({.kind = CpuHolder::Kind::kQuota,
                        .name = CleanText({text, strnlen(text, room)}, kMaxNameText)});
    default:
      break;
  }
  return {};
}

std::string WithOtherEnd(const WaitObject& object, std::string_view phrase) {
  std::string text = object.text;
  if (object.near && object.near->at <= text.size()) text.insert(object.near->at, phrase);
  return text;
}

WaitObjects::WaitObjects(std::span<const std::shared_ptr<const StackTrace>> known) {
  for (const auto& stack : known) {
    if ((static_cast<uint64_t>(stack->id) & PROFD_OBJECT_BIT) != 0) {
      known_.emplace(stack->id, stack.get());
    }
  }
}

const WaitObject& WaitObjects::Find(StackId object) {
  const auto [it, fresh] = described_.try_emplace(object);
  if (!fresh || object == StackId{}) return it->second;
  if (object == kOtherObjects) it->second.text = std::string(kOtherObjectsText);
  const auto known = known_.find(object);
  if (known != known_.end()) it->second = DescribeObject(*known->second);
  return it->second;
}

void WaitObjects::SetOtherEnd(StackId object, std::string_view phrase) {
  Find(object);
  WaitObject& described = described_[object];
  described.text = WithOtherEnd(described, phrase);
  described.near.reset();
}

std::string WaitObjects::TextOf(const SampleKey& wait) {
  const StackId object = ObjectOf(wait);
  if (wait.argument == 0) return "";
  if (object == StackId{}) return absl::StrCat("0x", absl::Hex(wait.argument));
  const std::string& text = TextOf(object);
  return text.empty() ? "[unknown object]" : text;
}

}  // namespace profd
