// Starts the server on a Unix socket or on a loopback port.
#ifndef PROFD_DAEMON_SERVICE_LISTEN_H_
#define PROFD_DAEMON_SERVICE_LISTEN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/status.h"
#include "daemon/service/service.h"

namespace profd {

// A parsed --listen value.
struct ListenAddress {
  std::string socket_path;  // empty: TCP
  std::string host;         // a literal address
  uint16_t port = 0;        // 0: the system chooses
};

// "unix:///PATH" or "HOST:PORT" with a loopback HOST (127.0.0.0/8, [::1], localhost): there is no
// TLS, so nothing else is listened on. Errors: InvalidArgument.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text);

// A running server. Stops when destroyed.
class Server {
 public:
  Server(std::unique_ptr<ProfilerService> service, std::unique_ptr<grpc::Server> server,
         std::string address);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Reads ahead what the first answer needs, which it would have to wait for. Takes some 0.1 s.
  void Prepare() { service_->Prepare(); }
  // Refuses new calls, gives running ones a second, then cancels them. Removes the socket.
  void Shutdown();
  // What a client gives as --server.
  const std::string& address() const { return address_; }

 private:
  std::unique_ptr<ProfilerService> service_;
  std::unique_ptr<grpc::Server> server_;  // dies before the service that it calls
  const std::string address_;
};

// `sources` must outlive the server. A socket's folder is created when it is missing (0750); the
// socket is for owner and group (0660). A socket that nobody answers on is replaced. Errors:
// InvalidArgument; AlreadyExists when another daemon listens; what the file system says.
absl::StatusOr<std::unique_ptr<Server>> StartServer(const std::string& listen_address,
                                                    ServiceSources sources);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LISTEN_H_
