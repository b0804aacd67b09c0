// Receives the parts of an answer that is a stream.
#ifndef PROFD_CLIENT_COMMANDS_RECEIVE_H_
#define PROFD_CLIENT_COMMANDS_RECEIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/profile.h"
#include "client/progress.h"

namespace profctl {

// Begins a call.
using StartStream = std::function<std::unique_ptr<grpc::ClientReader<profd::v1::Profile>>(
    profd::v1::Profiler::Stub& stub, grpc::ClientContext* context)>;

// Connects, calls, and puts the parts together: an answer for each of the `windows` (1 or 2) that
// were asked for. `types`: names of the sample types that it must have. `progress` may be null.
absl::StatusOr<std::vector<Answer>> ReceiveParts(const std::string& server,
                                                 const StartStream& start,
                                                 const std::vector<std::string>& types,
                                                 uint32_t windows, Progress* progress);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_RECEIVE_H_
