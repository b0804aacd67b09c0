// Names frames of an answer from files on this machine: those that the daemon did not have.
#ifndef PROFD_CLIENT_SYMBOLIZE_LATE_NAMES_H_
#define PROFD_CLIENT_SYMBOLIZE_LATE_NAMES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/answer/profile.h"
#include "client/symbolize/debug_sources.h"
#include "daemon/lines/line_reader.h"

namespace profctl {

struct LateNameOptions {
  DebugOptions debug;
  bool lines = true;  // files, lines and inlined functions, too
};

class LateNames {
 public:
  // Opens the files, and starts the process that reads DWARF: to be called before any thread is
  // started. The error is one line.
  static absl::StatusOr<std::unique_ptr<LateNames>> Open(const LateNameOptions& options);

  // Names what has no name, or one that is only exported, in a checked answer, and judges anew what
  // follows from names: origins, idle waits, shares of names. Sentences on files that were of no
  // use go to `notes`.
  void Name(profd::v1::Profile* message, std::vector<std::string>* notes);

 private:
  explicit LateNames(DebugSources sources) : sources_(std::move(sources)) {}

  DebugSources sources_;
  std::atomic<int64_t> lines_cpu_ns_ = 0;
  std::optional<profd::LineReader> lines_;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_SYMBOLIZE_LATE_NAMES_H_
