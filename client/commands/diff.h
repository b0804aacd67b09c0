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

struct DiffOptions {
  std::string server;
  DiffSide a, b;
  // Targets, thread, reasons, one sample type; of windows only.
  profd::v1::FetchRequest request;
  bool normalized = false;
  bool show_idle = false;
  bool json = false;
  bool colour = false;
  // Sets `grew` if a changed stack grew by more than this share of the total of A.
  std::optional<double> fail_over;
};

// The error is one line.
absl::Status RunDiff(const DiffOptions& options, std::ostream& out, bool* grew);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_DIFF_H_
