// The connection to the daemon.
#ifndef PROFD_CLIENT_IO_CONNECTION_H_
#define PROFD_CLIENT_IO_CONNECTION_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "profd/v1/profiler.grpc.pb.h"

namespace profctl {

inline constexpr char kDefaultServer[] = "unix:///run/profd/profd.sock";

// OK for unix:///PATH and HOST:PORT, else InvalidArgument that says what is expected.
absl::Status CheckAddress(std::string_view address);

class Connection {
 public:
  // Connects within `timeout`. An error is one line: what was tried, why it failed, what to do.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& address,
                                                          std::chrono::milliseconds timeout);

  profd::v1::Profiler::Stub& stub() { return *stub_; }
  const std::string& address() const { return address_; }

  // The outcome of a call as a one-line error with the address and a remedy.
  absl::Status Explain(const grpc::Status& status) const;

 private:
  Connection(std::string address, const std::shared_ptr<grpc::Channel>& channel);

  std::string address_;
  std::unique_ptr<profd::v1::Profiler::Stub> stub_;
};

// Sets the deadline of a call.
void SetDeadline(grpc::ClientContext& context, std::chrono::milliseconds timeout);

}  // namespace profctl

#endif  // PROFD_CLIENT_IO_CONNECTION_H_
