#include "client/analysis/looks.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the answer is damaged (", std::string(what),
                                          "); check that profd and profctl have the same version"));
}

absl::Status ReadAttribute(const profd::v1::Profile& message, uint32_t index, ThreadLook* look) {
  if (index >= static_cast<uint32_t>(message.attributes_size())) {
    return Damaged("a look refers to an unknown attribute");
  }
  const profd::v1::Attribute& attribute = message.attributes(static_cast<int>(index));
  const auto strings = static_cast<uint32_t>(message.strings_size());
  if (attribute.key() >= strings || attribute.text() >= strings) {
    return Damaged("an attribute has an unknown text");
  }
  const std::string& key = message.strings(static_cast<int>(attribute.key()));
  const std::string& text = message.strings(static_cast<int>(attribute.text()));
  if (key == "idle") look->idle = text;
  if (key == "object") look->object = text;
  if (key == "file") look->file = text;
  if (key == "syscall") look->syscall = static_cast<int32_t>(attribute.number());
  return absl::OkStatus();
}

// Files of this kind have no name that tells them apart.
bool IsAnonymous(std::string_view file) { return file.starts_with("anon_inode:"); }

}  // namespace

absl::StatusOr<Looks> ReadLooks(Answer answer) {
  Looks looks{.answer = std::move(answer), .threads = {}};
  const profd::v1::Profile& message = looks.answer.message();
  if (!message.has_look()) return Damaged("it does not say what was looked at");
  const Profile& profile = looks.profile();
  for (const profd::v1::ThreadLook& sent : message.looks()) {
    if (sent.thread() >= profile.threads.size()) return Damaged("a look is of an unknown thread");
    if (sent.stack() >= profile.stacks.size() && sent.stack() != 0) {
      return Damaged("a look refers to an unknown stack");
    }
    ThreadLook& look = looks.threads.emplace_back();
    look.thread = sent.thread();
    look.reason = DescribeReason(sent.reason()).reason;
    if (sent.has_for_ns()) look.for_ns = std::max<int64_t>(sent.for_ns(), 0);
    if (sent.stack() != 0) look.stack = sent.stack();
    for (const uint32_t index : sent.attributes()) {
      RETURN_IF_ERROR(ReadAttribute(message, index, &look));
    }
  }
  return looks;
}

bool WaitsLonger(const ThreadLook& a, const ThreadLook& b) {
  return a.for_ns.value_or(-1) > b.for_ns.value_or(-1);
}

std::vector<SharedObject> SharedObjects(const Looks& looks) {
  // Addresses, and files without a name of their own, say nothing across processes.
  std::map<std::pair<int32_t, std::string>, SharedObject> objects;
  for (const ThreadLook& look : looks.threads) {
    // Who has a CPU is no object that threads share.
    if (look.object.empty() || !look.idle.empty() || look.Queues()) continue;
    const bool named = !look.file.empty() && !IsAnonymous(look.file);
    const int32_t pid = looks.profile().threads[look.thread].pid;
    const std::string& name = named ? look.file : look.object;
    SharedObject& object = objects[{named ? 0 : pid, name}];
    object.name = name;
    object.waits.push_back(&look);
  }
  std::vector<SharedObject> shared;
  for (auto& [key, object] : objects) {
    if (object.waits.size() < 2) continue;
    std::stable_sort(object.waits.begin(), object.waits.end(),
                     [](const ThreadLook* a, const ThreadLook* b) { return WaitsLonger(*a, *b); });
    shared.push_back(std::move(object));
  }
  std::stable_sort(shared.begin(), shared.end(), [](const SharedObject& a, const SharedObject& b) {
    return a.waits.size() > b.waits.size();
  });
  return shared;
}

}  // namespace profctl
