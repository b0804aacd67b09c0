// How the processes, groups and locks of a profile are called.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer/profile.h"
#include "client/text/text.h"

namespace profctl {

std::string DescribeLock(const Sample& sample) {
  std::string text = CleanName(sample.lock);
  if (!sample.lock_kind.empty()) absl::StrAppend(&text, " (", CleanName(sample.lock_kind), ")");
  return text;
}

bool NamesObject(const Sample& sample) {
  return !sample.object.empty() && !sample.object.starts_with("0x");
}

bool HasOneProcess(const Profile& profile) {
  const auto& keys = profile.message->group_by();
  if (keys.size() < 2 || (keys.Get(0) != profd::v1::GROUP_KEY_PROCESS &&
                          keys.Get(0) != profd::v1::GROUP_KEY_PROCESS_NAME)) {
    return false;
  }
  return std::all_of(profile.groups.begin(), profile.groups.end(), [&](const auto& labels) {
    return labels.empty() || labels.front() == profile.groups[1].front();
  });
}

std::vector<std::string> GroupNames(const Profile& profile) {
  std::vector<std::string> names;
  names.reserve(profile.groups.size());
  const bool one_process = HasOneProcess(profile);
  for (const std::vector<std::string>& labels : profile.groups) {
    std::string name;
    const std::string* last = nullptr;
    for (size_t i = one_process ? 1 : 0; i < labels.size(); i++) {
      // The first thread of a process has the name of the process.
      if (last != nullptr && *last == labels[i]) continue;
      absl::StrAppend(&name, last == nullptr ? "" : "/", CleanName(labels[i]));
      last = &labels[i];
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string NameInProcess(const std::string& process, const std::string& name, bool many) {
  std::string clean = CleanName(name);
  const std::string of = CleanName(process);
  return many && of != clean ? absl::StrCat(of, "/", clean) : clean;
}

std::vector<std::string> ThreadGroupNames(const Profile& profile) {
  const bool many = HasManyProcesses(profile);
  std::vector<std::string> names;
  names.reserve(profile.threads.size());
  for (const Thread& thread : profile.threads) {
    names.push_back(NameInProcess(thread.process, thread.group, many));
  }
  return names;
}

bool HasManyProcesses(const Profile& profile) {
  return std::any_of(profile.threads.begin(), profile.threads.end(), [&](const Thread& thread) {
    return thread.pid != profile.threads.front().pid;
  });
}

std::string DescribeProcesses(const Profile& profile) {
  std::set<int32_t> pids;
  std::set<std::string> names;
  for (const Thread& thread : profile.threads) {
    pids.insert(thread.pid);
    names.insert(CleanName(thread.process));
  }
  if (pids.empty()) return "0 processes";
  if (pids.size() == 1) return absl::StrCat(*names.begin(), " (", *pids.begin(), ")");
  if (names.size() == 1) return absl::StrCat(*names.begin(), " (", pids.size(), " processes)");
  std::string text = absl::StrCat(pids.size(), " processes: ");
  size_t named = 0;
  for (const std::string& name : names) {
    if (named == 3) {
      text += " ...";
      break;
    }
    absl::StrAppend(&text, named++ == 0 ? "" : ", ", name);
  }
  return text;
}

}  // namespace profctl
