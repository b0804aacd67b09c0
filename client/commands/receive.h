// Receives the parts of an answer that is a stream.
#ifndef PROFD_CLIENT_COMMANDS_RECEIVE_H_
#define PROFD_CLIENT_COMMANDS_RECEIVE_H_

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

// Connects, calls, and puts the parts together. `types`: names of the sample types that the answer
// must have. `progress` may be null.
absl::StatusOr<Answer> ReceiveParts(const std::string& server, const StartStream& start,
                                    std::vector<std::string> types, Progress* progress);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_RECEIVE_H_
