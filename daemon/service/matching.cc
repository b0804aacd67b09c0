#include "daemon/service/matching.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

// Names in an error: enough to see what is there.
constexpr size_t kMaxNamesInError = 8;

std::string Quoted(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  return absl::StrJoin(texts, ", ", [](std::string* out, const std::string& text) {
    absl::StrAppend(out, "\"", CleanText(text, 100), "\"");
  });
}

}  // namespace

bool Matching::Matches(const ThreadInfo& info) {
  if (scope_.MatchesTarget(info.pid, info.process)) {
    matched_ = true;
    return true;
  }
  if (others_.size() <= kMaxNamesInError) {
    others_.insert(absl::StrCat(CleanText(info.process, 64), " (", info.pid, ")"));
  }
  return false;
}

absl::Status Matching::Outcome(const google::protobuf::RepeatedPtrField<std::string>& asked,
                               std::string_view when) const {
  if (matched_ || scope_.targets.empty()) return absl::OkStatus();
  if (others_.empty()) {
    return absl::NotFoundError(absl::StrCat("no process matches ", Quoted(asked),
                                            ": nothing was profiled ", std::string(when),
                                            "; `profctl status` shows what profd is attached to"));
  }
  const bool more = others_.size() > kMaxNamesInError;
  const auto end = more ? std::prev(others_.end()) : others_.end();
  return absl::NotFoundError(
      absl::StrCat("no process matches ", Quoted(asked), "; profiled ", std::string(when), ": ",
                   absl::StrJoin(others_.begin(), end, ", "), more ? " and more" : "",
                   ". Ask for one of them, or start profd with --target for another"));
}

}  // namespace profd
