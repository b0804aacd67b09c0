#include "daemon/config/time_namespace.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/fd.h"

namespace profd {
namespace {

constexpr size_t kMostBytes = 4096;

}  // namespace

absl::Status CheckTimeNamespace(const std::string& offsets) {
  const absl::StatusOr<std::string> text = ReadWholeFile(offsets, kMostBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() != 3 || words[0] != "monotonic") continue;
    int64_t seconds = 0, nanoseconds = 0;
    if (absl::SimpleAtoi(words[1], &seconds) && absl::SimpleAtoi(words[2], &nanoseconds) &&
        seconds == 0 && nanoseconds == 0) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        absl::StrCat("this time namespace shifts the monotonic clock by ", words[1],
                     " s, so times of kernel events would be wrong; start profd in the host's time "
                     "namespace"));
  }
  return absl::OkStatus();
}

}  // namespace profd
