// From packed frames to names, through the modules' files and kallsyms.
#ifndef PROFD_DAEMON_SERVICE_FRAME_NAMES_H_
#define PROFD_DAEMON_SERVICE_FRAME_NAMES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/collect/control.h"
#include "daemon/lines/line_reader.h"
#include "daemon/profile/identity.h"
#include "daemon/service/line_wish.h"
#include "daemon/service/named_frame.h"
#include "daemon/service/symbol_cache.h"
#include "daemon/symbolize/debug_files.h"
#include "daemon/symbolize/infer/crate_maps.h"
#include "daemon/symbolize/kernel_image.h"
#include "daemon/symbolize/kernel_symbols.h"
#include "daemon/symbolize/module_codes.h"
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

// Whether a frame is user code that is in no file.
bool IsInNoFile(uint64_t frame);
// What is looked up: the kernel's addresses are whole, others relative to their file.
uint64_t TargetOf(const FrameAddress& address);
// Identifies a module's file among others.
uint64_t KeyOf(ModuleId id, const ModuleIdentity& identity);

// Frames in files, by what is known of their lines; see v1::SourceLines.
struct LineCounts {
  uint64_t known = 0;
  uint64_t pending = 0;
  uint64_t failed = 0;
  uint64_t missing = 0;
};

// Lines of frames, on their way from debug info.
struct LineOrder {
  struct Asked {
    std::string path;            // of the module
    std::vector<size_t> frames;  // indexes of the addresses, one for each of the query
  };
  std::vector<LineQuery> queries;
  std::vector<Asked> asked;  // one for each query
  uint64_t missing = 0;      // frames in files without debug info
  int64_t deadline_ns = 0;   // CLOCK_MONOTONIC: until when an answer waits for them
};

// Thread-safe. Symbol tables are read by one caller at a time, to bound memory.
class FrameNames {
 public:
  // `modules` and `lines` must outlive this. `lines` may be null: then no line is known.
  // `debug_directories`: more places for debug files.
  explicit FrameNames(const ModuleSource* modules, symbolize::KernelFiles kernel_files = {},
                      std::vector<std::string> debug_directories = {}, std::string proc = "/proc",
                      LineReader* lines = nullptr);

  // Reads ahead what the first answer needs: the kernel's functions.
  void Prepare() ABSL_LOCKS_EXCLUDED(mutex_);
  // One result for each address. Text is valid UTF-8. `recorded`: what is known of modules that
  // profd has forgotten.
  std::vector<NamedFrame> Name(std::span<const FrameAddress> addresses,
                               const ModuleIdentities& recorded = {}) ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks for lines, which another process reads meanwhile.
  LineOrder OrderLines(std::span<const FrameAddress> addresses, LineWish wish)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds them to the frames of these addresses, and what was inlined. Waits until the
  // deadline of the order, a tenth of a second at most.
  LineCounts AddLines(LineOrder order, LineWish wish, std::vector<NamedFrame>* frames);

 private:
  void NameKernel(std::span<const FrameAddress> addresses, std::span<const size_t> which,
                  std::vector<NamedFrame>* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the kernel's, those with these indexes, which are not in the cache. `targets` has one for
  // each.
  void NameNewInKernel(std::span<const FrameAddress> addresses, std::span<const size_t> missing,
                       std::span<const uint64_t> targets, std::vector<NamedFrame>* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frames in no file, from the perf maps of their processes.
  void NameGenerated(std::span<const FrameAddress> addresses, std::span<const size_t> which,
                     std::vector<NamedFrame>* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those of one process. Reads at most `*bytes_left`, and lowers it.
  void NameByPerfMap(const ProcessId& process, std::span<const FrameAddress> addresses,
                     std::span<const size_t> which, uint64_t* bytes_left,
                     std::vector<NamedFrame>* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `*code_bytes_left`: how much of modules' code may still be read for this answer.
  void NameModule(ModuleId id, const ModuleIdentities& recorded,
                  std::span<const FrameAddress> addresses, std::span<const size_t> which,
                  uint64_t* code_bytes_left, std::vector<NamedFrame>* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The file with the debug info of a module, which may be its own; null if there is none. `number`
  // identifies its contents.
  std::shared_ptr<const UniqueFd> DebugInfoOf(uint64_t key, ModuleFile& module,
                                              const symbolize::ElfFile& elf, uint64_t* number)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const ModuleSource* const modules_;
  LineReader* const lines_;
  const std::vector<std::string> debug_directories_;
  absl::Mutex mutex_;
  symbolize::KernelImage kernel_ ABSL_GUARDED_BY(mutex_);
  KernelSymbolTable kernel_symbols_ ABSL_GUARDED_BY(mutex_);
  SymbolCache cache_ ABSL_GUARDED_BY(mutex_);
  DebugFiles debug_files_ ABSL_GUARDED_BY(mutex_);
  DebugFiles line_files_ ABSL_GUARDED_BY(mutex_);
  symbolize::ModuleCodes codes_ ABSL_GUARDED_BY(mutex_);
  symbolize::CrateMaps crate_maps_ ABSL_GUARDED_BY(mutex_);
  PerfMaps perf_maps_ ABSL_GUARDED_BY(mutex_);
  bool kernel_warned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_FRAME_NAMES_H_
