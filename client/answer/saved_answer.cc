#include "client/answer/saved_answer.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer/json.h"
#include "client/answer/string_table.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 30;

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<Answer> ReadSavedAnswer(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, profd::ReadWholeFile(path, kMostFileBytes));
  profd::v1::Profile message;
  if (const absl::Status parsed = ParseJson(text, &message); !parsed.ok()) {
    return InFile(path, parsed);
  }
  absl::StatusOr<Answer> answer = BuildAnswer(message);
  if (!answer.ok()) return InFile(path, answer.status());
  return answer;
}

absl::StatusOr<Answer> BuildAnswer(const profd::v1::Profile& message) {
  std::vector<std::string> types;
  for (const profd::v1::SampleType& type : message.sample_types()) types.push_back(type.name());
  ProfileBuilder builder(std::move(types));
  RETURN_IF_ERROR(builder.Add(message));
  return builder.Finish();
}

void GroupByName(profd::v1::Profile* message) {
  if (message->group_by_size() > 0) return;
  message->add_group_by(profd::v1::GROUP_KEY_PROCESS_NAME);
  message->add_group_by(profd::v1::GROUP_KEY_THREAD_NAME);
  StringTable strings(message);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> groups;
  for (profd::v1::Sample& sample : *message->mutable_samples()) {
    const profd::v1::Thread& thread = message->threads(static_cast<int>(sample.threads(0)));
    const profd::v1::Process& process = message->processes(static_cast<int>(thread.process()));
    const std::pair key(strings.Add(process.name()), strings.Add(thread.group()));
    const auto [it, fresh] = groups.try_emplace(key, static_cast<uint32_t>(message->groups_size()));
    if (fresh) {
      profd::v1::Group* group = message->add_groups();
      group->add_labels(key.first);
      group->add_labels(key.second);
    }
    sample.set_group(it->second);
  }
}

}  // namespace profctl
