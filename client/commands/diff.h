// profctl diff: compares two windows, two files, or a file and a window.
#ifndef PROFD_CLIENT_COMMANDS_DIFF_H_
#define PROFD_CLIENT_COMMANDS_DIFF_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/answer/frame_choice.h"
#include "client/render/diff_tree.h"
#include "client/render/flamegraph_svg.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// One side of a comparison.
struct DiffSide {
  std::string file;          // JSON that `fetch --format json` wrote; empty: a window
  profd::v1::Window window;  // of the daemon's
};

// An existing file, or a window: "FROM..TO", each a time or a duration before now ("10m..5m");
// "10m" ends now. `now_ns`: wall clock. InvalidArgument for anything else.
absl::StatusOr<DiffSide> ParseDiffSide(const std::string& text, int64_t now_ns);

enum class DiffFormat { kText, kJson, kSvg };

// "text", "json", "svg".
std::optional<DiffFormat> ParseDiffFormat(std::string_view name);
// By the ending of a file's name: .txt, .json, .svg.
std::optional<DiffFormat> DiffFormatOfFile(std::string_view path);

struct DiffOptions {
  std::string server;
  DiffSide a, b;
  // Targets, thread, reasons, one sample type; of windows only.
  profd::v1::FetchRequest request;
  bool normalized = false;
  FrameChoice frames;
  bool show_idle = false;
  DiffFormat format = DiffFormat::kText;
  std::string output;  // empty: `out`, but a new file for a flame graph; "-": `out`
  WidthOf width = WidthOf::kB;
  FlameGraphOptions graph;
  bool colour = false;
  bool progress = false;  // `err` is a terminal
  // Sets `grew` if a changed stack grew by more than this share of the total of A.
  std::optional<double> fail_over;
};

// Data goes to a file, after the page on `out`, or to `out`. The error is one line.
absl::Status RunDiff(const DiffOptions& options, std::ostream& out, std::ostream& err, bool* grew);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_DIFF_H_
