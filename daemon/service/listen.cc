#include "daemon/service/listen.h"

#include <arpa/inet.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "daemon/base/log.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr int kMaxRequestBytes = 64 << 10;
constexpr int kMaxThreads = 8;
constexpr size_t kMaxServerBytes = 32 << 20;
constexpr int kMaxStreamsPerClient = 16;
constexpr std::string_view kUnixScheme = "unix://";

absl::Status BadAddress(const std::string& text, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("--listen ", CleanText(text, 200), ": ", why,
                                                 "; use unix:///PATH or 127.0.0.1:PORT"));
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string HostPort(const std::string& host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

// gRPC's own messages: what matters to the user reaches them as a status.
void LogGrpc(gpr_log_func_args* args) { LogDebug("grpc: ", args->message); }

// Creates the folders above `path` that are missing.
absl::Status MakeParent(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0750) != 0 && errno != EEXIST) {
      return ErrnoStatus(absl::StrCat("creating ", folder, " for the socket"), errno);
    }
  }
  return absl::OkStatus();
}

// Whether somebody answers on the socket. Errors: what connect() says beyond "nobody".
absl::StatusOr<bool> SomebodyAnswers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  // A full backlog must not hold us up: whoever has one is alive.
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus("socket", errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN || errno == EINPROGRESS) {
    return true;
  }
  if (errno == ECONNREFUSED || errno == ENOENT) return false;
  return ErrnoStatus(absl::StrCat("looking who listens on ", path), errno);
}

// Leaves `path` free to bind, or says why not.
absl::Status ClaimSocket(const std::string& path) {
  struct stat st{};
  if (lstat(path.c_str(), &st) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(absl::StrCat("stat ", path), errno);
  }
  if (!S_ISSOCK(st.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " exists and is not a socket; remove it or choose another --listen"));
  }
  ASSIGN_OR_RETURN(const bool alive, SomebodyAnswers(path));
  if (alive) {
    return absl::AlreadyExistsError(
        absl::StrCat("another daemon listens on ", path, "; stop it or choose another --listen"));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(absl::StrCat("removing the stale socket ", path), errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  ListenAddress address;
  if (absl::StartsWith(text, "unix:")) {
    if (!absl::StartsWith(text, "unix:///")) return BadAddress(text, "the path is not absolute");
    address.socket_path = text.substr(kUnixScheme.size());
    if (address.socket_path.back() == '/' || address.socket_path.find('\0') != std::string::npos) {
      return BadAddress(text, "the path names no file");
    }
    if (address.socket_path.size() >= sizeof(sockaddr_un::sun_path)) {
      return BadAddress(text, "the path is longer than 107 bytes");
    }
    return address;
  }
  if (absl::StartsWith(text, "/")) return BadAddress(text, "this is a path, not an address");
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return BadAddress(text, "no port from 0 to 65535");
  }
  address.port = static_cast<uint16_t>(port);
  address.host = text.substr(0, colon);
  if (absl::StartsWith(address.host, "[") && absl::EndsWith(address.host, "]")) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host == "localhost") address.host = "127.0.0.1";
  if (!IsLoopback(address.host)) {
    return BadAddress(text, "only loopback addresses are served, as there is no encryption yet");
  }
  return address;
}

Server::Server(std::unique_ptr<ProfilerService> service, std::unique_ptr<grpc::Server> server,
               std::string address)
    : service_(std::move(service)), server_(std::move(server)), address_(std::move(address)) {}

Server::~Server() { Shutdown(); }

void Server::Shutdown() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_->Wait();
  server_.reset();
}

absl::StatusOr<std::unique_ptr<Server>> StartServer(const std::string& listen_address,
                                                    ServiceSources sources) {
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(listen_address));
  const bool local = !address.socket_path.empty();
  if (local) {
    RETURN_IF_ERROR(MakeParent(address.socket_path));
    RETURN_IF_ERROR(ClaimSocket(address.socket_path));
  }

  gpr_set_log_function(LogGrpc);
  // Probes of orchestrators ask for the health, tools such as grpcurl for the API's description.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ResourceQuota quota("profd");
  quota.SetMaxThreads(kMaxThreads);
  quota.Resize(kMaxServerBytes);
  auto service = std::make_unique<ProfilerService>(std::move(sources));
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerClient);
  // With it a second daemon would take half of the connections instead of an error.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int port = 0;
  builder.AddListeningPort(
      local ? absl::StrCat("unix:", address.socket_path) : HostPort(address.host, address.port),
      grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service.get());
  // The socket must not be open to others even for the moment before chmod.
  const mode_t mask = umask(0117);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  umask(mask);
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", CleanText(listen_address, 200),
                                               "; is the address in use?"));
  }
  if (local && chmod(address.socket_path.c_str(), 0660) != 0) {
    return ErrnoStatus(absl::StrCat("chmod ", address.socket_path), errno);
  }
  return std::make_unique<Server>(std::move(service), std::move(server),
                                  local ? listen_address : HostPort(address.host, port));
}

}  // namespace profd
