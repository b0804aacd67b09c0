// From packed frames to names, through the modules' files and kallsyms.
#ifndef PROFD_DAEMON_SERVICE_FRAME_NAMES_H_
#define PROFD_DAEMON_SERVICE_FRAME_NAMES_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/collect/control.h"
#include "daemon/profile/identity.h"
#include "daemon/service/symbol_cache.h"
#include "daemon/symbolize/debug_files.h"
#include "daemon/symbolize/perf_maps.h"

namespace profd {

// A frame as abi.h packs it. A return address points behind the call and may lie in the next
// function: it is looked up one byte before.
struct FrameAddress {
  uint64_t frame = 0;
  bool exact = false;  // the instruction itself, not a return address
  // Whose memory it is in, if it is in no file: equal addresses of two processes are not the same
  // code.
  ProcessId process{};
  friend bool operator==(const FrameAddress&, const FrameAddress&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const FrameAddress& f) {
    return H::combine(std::move(h), f.frame, f.exact, f.process);
  }
};

// Whether a frame is in no file.
bool IsInNoFile(uint64_t frame);

struct NamedFrame {
  std::string function;
  std::string module;  // base name, "[kernel]", "[jit]" or empty
  std::string build_id;
  uint64_t offset = 0;  // as stored; kernel: the address
  FrameKind kind = FrameKind::kApplication;
  NameSource found_by = NameSource::kNone;
};

// Thread-safe. Symbol tables are read by one caller at a time, to bound memory.
class FrameNames {
 public:
  // `modules` must outlive this.
  // `debug_directories`: more places for debug files.
  explicit FrameNames(const ModuleSource* modules, std::string kallsyms = "/proc/kallsyms",
                      std::vector<std::string> debug_directories = {}, std::string proc = "/proc");

  // One result for each address. Text is valid UTF-8.
  std::vector<NamedFrame> Name(std::span<const FrameAddress> addresses) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void NameKernel(std::span<const FrameAddress> addresses, std::span<const size_t> which,
                  std::vector<NamedFrame>* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frames in no file, from the perf maps of their processes.
  void NameGenerated(std::span<const FrameAddress> addresses, std::span<const size_t> which,
                     std::vector<NamedFrame>* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those of one process. Reads at most `*bytes_left`, and lowers it.
  void NameByPerfMap(const ProcessId& process, std::span<const FrameAddress> addresses,
                     std::span<const size_t> which, uint64_t* bytes_left,
                     std::vector<NamedFrame>* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NameModule(ModuleId id, std::span<const FrameAddress> addresses,
                  std::span<const size_t> which, std::vector<NamedFrame>* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ModuleSource* const modules_;
  const std::string kallsyms_;
  absl::Mutex mutex_;
  SymbolCache cache_ ABSL_GUARDED_BY(mutex_);
  DebugFiles debug_files_ ABSL_GUARDED_BY(mutex_);
  PerfMaps perf_maps_ ABSL_GUARDED_BY(mutex_);
  bool kernel_warned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_FRAME_NAMES_H_
