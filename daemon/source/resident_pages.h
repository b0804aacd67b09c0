// Which pages of the targets are resident, of a sample of them, and who touched them first.
#ifndef PROFD_DAEMON_SOURCE_RESIDENT_PAGES_H_
#define PROFD_DAEMON_SOURCE_RESIDENT_PAGES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "bpf/abi.h"
#include "daemon/base/cpu_use.h"
#include "daemon/profile/profile.h"
#include "daemon/source/live_set.h"

namespace profd {

// Thread-safe. The kernel reports when a sampled page is touched. A thread of its own checks in
// /proc/PID/pagemap every few seconds whether pages were returned.
class ResidentPages {
 public:
  // Most pages that are kept. Beyond it fewer are sampled.
  static constexpr size_t kMaxPages = 65'536;

  // `seed`: for profd_page_hash. `cpu_use` must outlive this. `pause_ns`: between the checks of its
  // thread, at least.
  ResidentPages(uint64_t seed, CpuUse* cpu_use, int64_t pause_ns = 5'000'000'000);
  ~ResidentPages();

  // A page was touched. One that may be of a file counts once a check has found that it is not.
  void OnTouched(const profd_page_record& record) ABSL_LOCKS_EXCLUDED(mutex_);
  // A process called exec: its pages are gone.
  void OnExec(int32_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // The present processes of all targets; the pages of others are gone.
  void KeepOnly(const std::set<int32_t>& pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // Samples one page in so many from now on, and thins out the known pages accordingly.
  void SetOneIn(uint32_t one_in) ABSL_LOCKS_EXCLUDED(mutex_);
  // The finest sample (one page in so many) that fits. Returns to 1 once most of the pages are
  // gone.
  uint32_t LeastOneIn() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Checks pages by itself, or stops to, from now on.
  void SetOn(bool on) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends a drain: moves the changes since the last one into the samples of `delta`.
  void Finish(ProfileDelta& delta) ABSL_LOCKS_EXCLUDED(mutex_);

  // The time to touch a page, ns, measured on pages of our own.
  static double MeasureTouch();

  // Checks all pages once, on the calling thread, or those that may be of files. Takes at least 100
  // ms.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void LookAtUnsure() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t pages() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes that the known pages of a process stand for.
  int64_t BytesOf(int32_t pid) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Why the pages of some process cannot be checked; empty if they can.
  std::string note() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Page {
    uint64_t address = 0;
    uint64_t serial = 0;
    uint32_t one_in = 1;
  };
  struct Process {
    int32_t pid = 0;
    uint64_t looked = 0;  // greatest serial that was checked
    int absent = 0;       // consecutive calls in which it was not a target
  };
  struct Unsure {
    profd_page_record record;
    uint64_t serial = 0;  // of the next page when it was touched
  };
  struct Seen;

  void Run();
  void Add(const profd_page_record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those of `unsure` that are in memory and of no file.
  static std::vector<Unsure> AnonymousOf(const std::vector<Unsure>& unsure);
  void RemoveProcesses(absl::FunctionRef<bool(Process& process)> gone)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pages with serials below `end`.
  void LookAt(ThreadId id, const Process& process, uint64_t end) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Page> PagesOf(ThreadId id, uint64_t end) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps only the known pages that belong to a sample of one in so many.
  void Thin(uint32_t one_in) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t seed_;
  CpuUse* const cpu_use_;
  const int64_t pause_ns_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool on_ ABSL_GUARDED_BY(mutex_) = true;
  uint32_t one_in_ ABSL_GUARDED_BY(mutex_) = 1;
  uint32_t least_one_in_ ABSL_GUARDED_BY(mutex_) = 1;
  LiveSet pages_ ABSL_GUARDED_BY(mutex_){Kind::kResident};
  std::vector<Unsure> unsure_ ABSL_GUARDED_BY(mutex_);
  std::map<ThreadId, Process> processes_ ABSL_GUARDED_BY(mutex_);
  std::string note_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_RESIDENT_PAGES_H_
