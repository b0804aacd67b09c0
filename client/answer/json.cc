#include "client/answer/json.h"

#include "absl/strings/str_cat.h"
#include "client/answer/json_message.h"
#include "google/protobuf/util/json_util.h"

namespace profctl {

std::string RenderJson(const google::protobuf::Message& message) {
  std::string json;
  AppendJson(message, &json);
  json.push_back('\n');
  return json;
}

absl::Status ParseJson(const std::string& text, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a newer profctl
  const auto status = google::protobuf::util::JsonStringToMessage(text, message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("not a profile in JSON: ", status.message().ToString()));
}

}  // namespace profctl
