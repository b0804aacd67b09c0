// The complete answer: the API's message Profile in protobuf's JSON mapping, with field names as in
// profiler.proto.
#ifndef PROFD_CLIENT_ANSWER_JSON_H_
#define PROFD_CLIENT_ANSWER_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace profctl {

// One line with a newline. The mapping makes 64-bit fields strings. Includes fields that are 0.
std::string RenderJson(const google::protobuf::Message& message);

// Reads what RenderJson wrote. DataLoss for anything else.
absl::Status ParseJson(const std::string& text, google::protobuf::Message* message);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_JSON_H_
