#include "client/commands/diff.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/analysis/diff.h"
#include "client/answer/profile.h"
#include "client/answer/saved_answer.h"
#include "client/answer/source_lines.h"
#include "client/answer/view.h"
#include "client/commands/fetch.h"
#include "client/io/output.h"
#include "client/io/progress.h"
#include "client/render/diff.h"
#include "client/render/diff_graph.h"
#include "client/text/text.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr size_t kMostRows = 10;
constexpr std::string_view kRange = "..";

// A time, "now", or a duration before now.
absl::StatusOr<int64_t> ParseEnd(std::string_view text, int64_t now_ns) {
  if (const absl::StatusOr<int64_t> ago = ParseDuration(text); ago.ok()) return now_ns - *ago;
  return ParseTime(text, {.now_ns = now_ns});
}

absl::StatusOr<Answer> ReadFile(const std::string& path, const profd::v1::FetchRequest& request,
                                const FrameChoice& frames) {
  ASSIGN_OR_RETURN(Answer answer, ReadSavedAnswer(path));
  ASSIGN_OR_RETURN(answer, WithChosenFrames(frames, std::move(answer)));
  std::erase_if(answer.profiles, [&](const Profile& profile) {
    return profile.kind->name != request.sample_types(0);
  });
  for (Profile& profile : answer.profiles) DropInlined(&profile);
  if (answer.profiles.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " contains no '", request.sample_types(0),
                                                   "'; use --kind to name one that it contains"));
  }
  return answer;
}

struct Sides {
  Answer a, b;
};

// Two windows come in one answer, from one state of the daemon.
absl::StatusOr<Sides> Load(const DiffOptions& options, Progress* progress) {
  profd::v1::FetchRequest request = options.request;
  request.add_group_by(profd::v1::GROUP_KEY_PROCESS_NAME);
  request.add_group_by(profd::v1::GROUP_KEY_THREAD_NAME);
  if (options.a.file.empty() && options.b.file.empty()) {
    *request.mutable_window() = options.b.window;
    *request.mutable_baseline() = options.a.window;
    ASSIGN_OR_RETURN(std::vector<Answer> answers,
                     ReceiveAnswers(options.server, request, progress));
    Sides sides;
    ASSIGN_OR_RETURN(sides.a, WithChosenFrames(options.frames, std::move(answers[1])));
    ASSIGN_OR_RETURN(sides.b, WithChosenFrames(options.frames, std::move(answers[0])));
    return sides;
  }
  const auto load = [&](const DiffSide& side) -> absl::StatusOr<Answer> {
    if (!side.file.empty()) return ReadFile(side.file, options.request, options.frames);
    *request.mutable_window() = side.window;
    ASSIGN_OR_RETURN(Answer answer, ReceiveAnswer(options.server, request, progress));
    return WithChosenFrames(options.frames, std::move(answer));
  };
  ASSIGN_OR_RETURN(Answer a, load(options.a));
  ASSIGN_OR_RETURN(Answer b, load(options.b));
  return Sides{.a = std::move(a), .b = std::move(b)};
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

std::optional<DiffFormat> ParseDiffFormat(std::string_view name) {
  if (name == "text") return DiffFormat::kText;
  if (name == "json") return DiffFormat::kJson;
  if (name == "svg") return DiffFormat::kSvg;
  return std::nullopt;
}

std::optional<DiffFormat> DiffFormatOfFile(std::string_view path) {
  if (path.ends_with(".txt")) return DiffFormat::kText;
  if (path.ends_with(".json")) return DiffFormat::kJson;
  if (path.ends_with(".svg")) return DiffFormat::kSvg;
  return std::nullopt;
}

absl::Status RunDiff(const DiffOptions& options, std::ostream& out, std::ostream& err, bool* grew) {
  Progress progress(options.progress ? &err : nullptr);
  ASSIGN_OR_RETURN(const Sides sides, Load(options, &progress));
  progress.Say("profctl: comparing");
  const Profile& a = sides.a.profiles.front();
  const Profile& b = sides.b.profiles.front();
  const Diff diff =
      Compare(MakeView(a, options.show_idle), MakeView(b, options.show_idle), options.normalized);
  *grew = options.fail_over && diff.LargestGrowth() > *options.fail_over;
  const auto page = [&](bool colour) { return RenderDiffText(a, b, diff, kMostRows, colour); };
  std::string content;
  switch (options.format) {
    case DiffFormat::kText:
      content = page(options.colour && options.output.empty());
      break;
    case DiffFormat::kJson:
      content = RenderDiffJson(a, b, diff);
      break;
    case DiffFormat::kSvg:
      content = RenderDiffGraph(a, b, diff, options.width, options.graph);
      break;
  }
  progress.Finish();

  const bool graph = options.format == DiffFormat::kSvg;
  if (options.output == "-" || (options.output.empty() && !graph)) return Print(content, out);
  // The page comes first, so that it is there even if the file cannot be written.
  RETURN_IF_ERROR(Print(page(options.colour) + "\n", out));
  std::string path = options.output;
  if (path.empty()) {
    ASSIGN_OR_RETURN(path, WriteNewFile(FileStem(b, "diff"), ".svg", content));
  } else {
    RETURN_IF_ERROR(WriteFile(path, content));
  }
  const std::string clean = CleanName(path);
  switch (options.format) {
    case DiffFormat::kText:
      return Print(absl::StrCat("Text: ", clean, "\n"), out);
    case DiffFormat::kJson:
      return Print(absl::StrCat(Written(Format::kJson, clean), "\n"), out);
    case DiffFormat::kSvg:
      return Print(absl::StrCat(Written(Format::kSvg, clean), "\n"), out);
  }
  return absl::OkStatus();
}

}  // namespace profctl
