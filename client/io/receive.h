// Receives the parts of an answer that is a stream.
#ifndef PROFD_CLIENT_IO_RECEIVE_H_
#define PROFD_CLIENT_IO_RECEIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/answer/profile.h"
#include "client/io/connection.h"
#include "client/io/progress.h"

namespace profctl {

// Begins a call.
using StartStream = std::function<std::unique_ptr<grpc::ClientReader<profd::v1::Profile>>(
    profd::v1::Profiler::Stub& stub, grpc::ClientContext* context)>;

// Ends calls from another thread: the one that runs, and all later ones.
class Canceller {
 public:
  void Cancel();
  // Of the thread that calls: a call begins, and ends. False: it is cancelled already.
  bool Begin(grpc::ClientContext* context);
  void End();

 private:
  std::mutex mutex_;
  grpc::ClientContext* context_ = nullptr;
  bool cancelled_ = false;
};

// Connects, calls, and puts the parts together: an answer for each of the `windows` (1 or 2) that
// were asked for. `types`: names of the sample types that it must have. `progress` may be null.
absl::StatusOr<std::vector<Answer>> ReceiveParts(const std::string& server,
                                                 const StartStream& start,
                                                 const std::vector<std::string>& types,
                                                 uint32_t windows, Progress* progress);
// The same with a connection that stays. `canceller` and `progress` may be null.
absl::StatusOr<std::vector<Answer>> ReceiveParts(Connection& connection, const StartStream& start,
                                                 const std::vector<std::string>& types,
                                                 uint32_t windows, Canceller* canceller,
                                                 Progress* progress);

}  // namespace profctl

#endif  // PROFD_CLIENT_IO_RECEIVE_H_
