// The complete answer for machines: the message Profile of the API in protobuf's JSON mapping, with
// the names of its fields as in profiler.proto.
#ifndef PROFD_CLIENT_RENDER_JSON_H_
#define PROFD_CLIENT_RENDER_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace profctl {

// One line ended by a newline. Fields of 64 bits are strings, as the mapping wants it; fields that
// are 0 are there, too.
absl::StatusOr<std::string> RenderJson(const google::protobuf::Message& message);

// The message of a text that RenderJson wrote. DataLoss for anything else.
absl::Status ParseJson(const std::string& text, google::protobuf::Message* message);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_JSON_H_
