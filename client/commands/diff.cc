#include "client/commands/diff.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/fetch.h"
#include "client/diff.h"
#include "client/profile.h"
#include "client/render/diff.h"
#include "client/render/json.h"
#include "client/text.h"
#include "client/view.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr size_t kMostRows = 10;
constexpr size_t kMostFileBytes = size_t{1} << 30;
constexpr std::string_view kRange = "..";

// A time, "now", or a duration before now.
absl::StatusOr<int64_t> ParseEnd(std::string_view text, int64_t now_ns) {
  if (const absl::StatusOr<int64_t> ago = ParseDuration(text); ago.ok()) return now_ns - *ago;
  return ParseTime(text, {.now_ns = now_ns});
}

absl::StatusOr<Answer> ReadFile(const std::string& path, const profd::v1::FetchRequest& request) {
  ASSIGN_OR_RETURN(const std::string text, profd::ReadWholeFile(path, kMostFileBytes));
  profd::v1::Profile message;
  if (const absl::Status parsed = ParseJson(text, &message); !parsed.ok()) {
    return absl::Status(parsed.code(), absl::StrCat(path, ": ", parsed.message()));
  }
  std::vector<std::string> types;
  for (const profd::v1::SampleType& type : message.sample_types()) types.push_back(type.name());
  ProfileBuilder builder(std::move(types));
  absl::Status status = builder.Add(message);
  absl::StatusOr<Answer> answer = status.ok() ? builder.Finish() : status;
  if (!answer.ok()) {
    return absl::Status(answer.status().code(),
                        absl::StrCat(path, ": ", answer.status().message()));
  }
  std::erase_if(answer->profiles, [&](const Profile& profile) {
    return profile.kind->name != request.sample_types(0);
  });
  if (answer->profiles.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " contains no '", request.sample_types(0),
                                                   "'; use --kind to name one that it contains"));
  }
  return answer;
}

absl::StatusOr<Answer> Load(const DiffOptions& options, const DiffSide& side) {
  if (!side.file.empty()) return ReadFile(side.file, options.request);
  profd::v1::FetchRequest request = options.request;
  *request.mutable_window() = side.window;
  request.add_group_by(profd::v1::GROUP_KEY_PROCESS_NAME);
  request.add_group_by(profd::v1::GROUP_KEY_THREAD_NAME);
  return ReceiveAnswer(options.server, request);
}

}  // namespace

absl::StatusOr<DiffSide> ParseDiffSide(const std::string& text, int64_t now_ns) {
  DiffSide side;
  struct stat file{};
  if (stat(text.c_str(), &file) == 0 && !S_ISDIR(file.st_mode)) {
    side.file = text;
    return side;
  }
  const size_t range = text.find(kRange);
  const std::string_view all = text;
  const absl::StatusOr<int64_t> begin = ParseEnd(all.substr(0, range), now_ns);
  const absl::StatusOr<int64_t> end = range == std::string::npos
                                          ? absl::StatusOr<int64_t>(now_ns)
                                          : ParseEnd(all.substr(range + kRange.size()), now_ns);
  if (!begin.ok() || !end.ok() || *begin >= *end || *begin <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", CleanName(text),
                     "' is neither a file nor a window; use FROM..TO, for example 10m..5m or "
                     "2026-01-31T13:05:00Z..2026-01-31T13:06:00Z"));
  }
  side.window.set_begin_ns(*begin);
  // No end: the daemon then includes its newest data.
  if (*end != now_ns) side.window.set_end_ns(*end);
  return side;
}

absl::Status RunDiff(const DiffOptions& options, std::ostream& out, bool* grew) {
  ASSIGN_OR_RETURN(const Answer before, Load(options, options.a));
  ASSIGN_OR_RETURN(const Answer after, Load(options, options.b));
  const Profile& a = before.profiles.front();
  const Profile& b = after.profiles.front();
  const Diff diff =
      Compare(MakeView(a, options.show_idle), MakeView(b, options.show_idle), options.normalized);
  *grew = options.fail_over && diff.LargestGrowth() > *options.fail_over;
  out << (options.json ? RenderDiffJson(a, b, diff)
                       : RenderDiffText(a, b, diff, kMostRows, options.colour));
  return absl::OkStatus();
}

}  // namespace profctl
