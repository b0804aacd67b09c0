#include "daemon/service/matching.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/service/text.h"
#include "daemon/store/folding.h"

namespace profd {
namespace {

// Names in an error: enough to see what is there.
constexpr size_t kMaxNamesInError = 8;

std::string Quoted(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  return absl::StrJoin(texts, ", ", [](std::string* out, const std::string& text) {
    absl::StrAppend(out, "\"", CleanText(text, 100), "\"");
  });
}

std::string ListOf(const std::set<std::string>& names) {
  const bool more = names.size() > kMaxNamesInError;
  const auto end = more ? std::prev(names.end()) : names.end();
  return absl::StrCat(absl::StrJoin(names.begin(), end, ", "), more ? " and more" : "");
}

}  // namespace

bool Matching::Matches(const ThreadInfo& info) {
  if (scope_.MatchesTarget(info.pid, info.process)) {
    matched_ = true;
    return true;
  }
  std::set<std::string>& rows = IsExitedProcesses(info) ? exited_ : others_;
  if (rows.size() > kMaxNamesInError) return false;
  if (IsExitedProcesses(info)) {
    exited_.insert(CleanText(info.process, 64));
  } else {
    others_.insert(absl::StrCat(CleanText(info.process, 64), " (", info.pid, ")"));
  }
  return false;
}

bool Matching::MatchesThread(const ThreadInfo& info) {
  if (!Matches(info)) return false;
  if (scope_.MatchesThread(info)) {
    thread_matched_ = true;
    return true;
  }
  if (threads_.size() <= kMaxNamesInError) threads_.insert(CleanText(info.name, 64));
  return false;
}

absl::Status Matching::ThreadOutcome(const std::string& regex, std::string_view when) const {
  if (thread_matched_ || threads_.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no thread matches \"", CleanText(regex, 100),
                                          "\"; threads profiled ", std::string(when), ": ",
                                          ListOf(threads_), ". Ask for one of them"));
}

absl::Status Matching::Outcome(const google::protobuf::RepeatedPtrField<std::string>& asked,
                               std::string_view when, const NameOf& name_of) const {
  if (matched_ || scope_.targets.empty()) return absl::OkStatus();
  for (const std::string& target : asked) {
    int32_t pid = 0;
    if (!absl::SimpleAtoi(target, &pid) || exited_.empty()) continue;
    const std::string name = name_of ? CleanText(name_of(pid), 64) : "";
    if (exited_.contains(name)) {
      return absl::NotFoundError(absl::StrCat(
          "process ", pid, " (", name, ") exited, and is part of the sum of all processes named ",
          name, " that exited ", std::string(when), ". Ask for this name to see the sum"));
    }
  }
  if (others_.empty() && exited_.empty()) {
    return absl::NotFoundError(absl::StrCat("no process matches ", Quoted(asked),
                                            ": nothing was profiled ", std::string(when),
                                            "; `profctl status` shows what profd is attached to"));
  }
  std::string text = absl::StrCat("no process matches ", Quoted(asked), "; profiled ",
                                  std::string(when), ": ", ListOf(others_));
  if (!exited_.empty()) {
    absl::StrAppend(
        &text, others_.empty() ? "" : "; ",
        "processes that exited, added up by their names because there are many: ", ListOf(exited_));
  }
  return absl::NotFoundError(absl::StrCat(text, ". Ask for one of them",
                                          exited_.empty() ? "" : ", those that exited by name",
                                          ", or start profd with --target for another"));
}

}  // namespace profd
