// profctl fetch: requests a window and renders it.
#ifndef PROFD_CLIENT_COMMANDS_FETCH_H_
#define PROFD_CLIENT_COMMANDS_FETCH_H_

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/answer/frame_choice.h"
#include "client/answer/group_by.h"
#include "client/answer/profile.h"
#include "client/io/progress.h"
#include "client/render/flamegraph_svg.h"
#include "client/symbolize/late_names.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

enum class Format { kSvg, kText, kFolded, kJson, kPprof, kSpeedscope };

// "svg", "text", "folded", "json", "pprof", "speedscope".
std::optional<Format> ParseFormat(std::string_view name);
// By the ending of a file's name: .svg, .txt, .folded, .json, .pb.gz, .speedscope.json.
std::optional<Format> FormatOfFile(std::string_view path);

struct FetchOptions {
  std::string server;
  profd::v1::FetchRequest request;
  bool show_idle = false;
  FrameChoice frames;
  // None: the default of the format.
  std::optional<std::vector<GroupKey>> group_by;
  // Files that name functions which the daemon does not know.
  std::optional<LateNameOptions> debug;
  FlameGraphOptions graph;
  std::optional<Format> format;  // none: by the name of the file, else SVG
  std::string output;            // empty: the format's default place; "-": `out`
  bool colour = false;
  bool progress = false;    // `err` is a terminal
  bool next_steps = false;  // `out` is one: the summary ends with what to ask next
};

// The format that the options ask for.
Format FormatOf(const FetchOptions& options);
// InvalidArgument if the format holds one sample type and several are requested.
absl::Status CheckFormat(const FetchOptions& options);

// The answer to a request of one window. The error is one line.
absl::StatusOr<Answer> ReceiveAnswer(const std::string& server,
                                     const profd::v1::FetchRequest& request,
                                     Progress* progress = nullptr);
// The answer for each window of a request: the window, then the baseline if it has one.
absl::StatusOr<std::vector<Answer>> ReceiveAnswers(const std::string& server,
                                                   const profd::v1::FetchRequest& request,
                                                   Progress* progress = nullptr);

// The name of a new file for a profile, without its ending:
// "profd-reth-1234-20260131T130509Z". Several processes: their number instead of the PID. A kind
// other than "offcpu" is named: "profd-reth-1234-alloc-20260131T130509Z". `what` comes before the
// time, unless it is empty.
std::string FileStem(const Profile& profile, std::string_view what = "");
// Names the file that was written; the last line of the output.
std::string Written(Format format, const std::string& path);

// Names frames by `names`, if it is not null, groups the samples where the format wants it and the
// answer was not, and writes it as Fetch does.
absl::Status WriteAnswer(const FetchOptions& options, Answer answer, LateNames* names,
                         Progress* progress, std::ostream& out, std::ostream& err);

// Data goes to a file, after a summary on `out`, or to `out`, with remarks on `err`. The error is
// one line.
absl::Status Fetch(const FetchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_FETCH_H_
