#include "client/io/connection.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/text/text.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::string_view kUnixScheme = "unix://";
constexpr int kMaxMessageBytes = 256 << 20;
constexpr char kStart[] =
    "start it with 'sudo profd --target PID|REGEX', or set its address with --server or "
    "PROFCTL_SERVER";

// gRPC only says that it cannot connect. The kernel says why.
absl::Status ProbeSocket(const std::string& address, const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the socket path of ", address, " is longer than ", sizeof(name.sun_path) - 1, " bytes"));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  profd::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return profd::ErrnoStatus("cannot create a socket", errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0) {
    return absl::OkStatus();
  }
  const std::string tried = absl::StrCat("cannot connect to profd at ", address, ": ");
  switch (errno) {
    case EAGAIN:
      return absl::OkStatus();  // its queue is full, so it exists
    case ENOENT:
    case ENOTDIR:
      return absl::UnavailableError(
          absl::StrCat(tried, "no such socket; profd is probably not running; ", kStart));
    case ECONNREFUSED:
      return absl::UnavailableError(
          absl::StrCat(tried, "nothing listens there; profd has probably exited; ", kStart));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat(tried,
                       "permission denied on the socket; run profctl as root or as a user with "
                       "write access to it (ls -l ",
                       path, ")"));
    default:
      return profd::ErrnoStatus(absl::StrCat(tried, "socket"), errno);
  }
}

}  // namespace

absl::Status CheckAddress(std::string_view address) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("'", CleanName(address), "' is not a valid address; use ",
                   address.starts_with('/') ? absl::StrCat("unix://", CleanName(address))
                                            : std::string("unix:///PATH or HOST:PORT")));
  if (address.starts_with(kUnixScheme)) {
    const std::string_view path = address.substr(kUnixScheme.size());
    return path.size() > 1 && path[0] == '/' ? absl::OkStatus() : bad;
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad;
  const std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(colon + 1);
  int port = 0;
  if (host.find_first_of("/ ") != std::string_view::npos ||
      (host.find(':') != std::string_view::npos && host.front() != '[') ||
      !absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &port) || port < 1 ||
      port > std::numeric_limits<uint16_t>::max()) {
    return bad;
  }
  return absl::OkStatus();
}

void SetDeadline(grpc::ClientContext& context, std::chrono::milliseconds timeout) {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address,
                                                             std::chrono::milliseconds timeout) {
  RETURN_IF_ERROR(CheckAddress(address));
  const bool is_unix = address.starts_with(kUnixScheme);
  if (is_unix) RETURN_IF_ERROR(ProbeSocket(address, address.substr(kUnixScheme.size())));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // The daemon is local or named explicitly: ignore HTTP proxies.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  const auto deadline = std::chrono::system_clock::now() + timeout;
  grpc_connectivity_state state = channel->GetState(true);
  while (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
    if (!channel->WaitForStateChange(state, deadline)) break;
    state = channel->GetState(true);
  }
  if (state != GRPC_CHANNEL_READY) {
    return absl::UnavailableError(absl::StrCat(
        "cannot connect to profd at ", address, ": ",
        is_unix ? "something listens there, but it does not speak profd's protocol; see its log"
                : "no profd answers there; check its --listen HOST:PORT and any firewall"));
  }
  return std::unique_ptr<Connection>(new Connection(address, channel));
}

Connection::Connection(std::string address, const std::shared_ptr<grpc::Channel>& channel)
    : address_(std::move(address)), stub_(profd::v1::Profiler::NewStub(channel)) {}

absl::Status Connection::Explain(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  const std::string said = CleanName(status.error_message());
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const auto error = [&](std::string_view remedy) {
    return absl::Status(code, absl::StrCat("profd at ", address_, ": ",
                                           said.empty() ? "failed without a message" : said,
                                           absl::string_view(remedy.data(), remedy.size())));
  };
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return error("; it did not answer in time; use a shorter window, or see its log");
    case grpc::StatusCode::UNIMPLEMENTED:
      return error("; the server is not profd, or a different version");
    case grpc::StatusCode::UNAVAILABLE:
      return error("; it is stopping or has exited; see its log");
    case grpc::StatusCode::NOT_FOUND:
      return error("; 'profctl status' lists what it watches");
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return error("; try again, or request less");
    default:
      return error("");
  }
}

}  // namespace profctl
