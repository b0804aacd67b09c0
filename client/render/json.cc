#include "client/render/json.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace profctl {

absl::StatusOr<std::string> RenderJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    return absl::DataLossError(
        absl::StrCat("the answer cannot be written as JSON: ", status.message().ToString(),
                     "; check that profd and profctl have the same version"));
  }
  return json + "\n";
}

absl::Status ParseJson(const std::string& text, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a newer profctl
  const auto status = google::protobuf::util::JsonStringToMessage(text, message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("not a profile in JSON: ", status.message().ToString()));
}

}  // namespace profctl
