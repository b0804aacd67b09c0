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

// Thread-safe. The kernel tells of each page of the sample when it is touched; that it was given
// back is seen by looking, every few seconds, on a thread of its own, at /proc/PID/pagemap.
class ResidentPages {
 public:
  // More pages than this are not kept: fewer are sampled then.
  static constexpr size_t kMaxPages = 65'536;

  // `seed`: of profd_page_hash. `cpu_use` must outlive this.
  ResidentPages(uint64_t seed, CpuUse* cpu_use);
  ~ResidentPages();

  // A page was touched.
  void OnTouched(const profd_page_record& record) ABSL_LOCKS_EXCLUDED(mutex_);
  // A process became another program: its pages are gone.
  void OnExec(int32_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // The processes of all targets, as they are now: pages of others are gone.
  void KeepOnly(const std::set<int32_t>& pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // One page in so many is sampled from now on; no more than that are kept of those that are known.
  void SetOneIn(uint32_t one_in) ABSL_LOCKS_EXCLUDED(mutex_);
  // How coarse the sample has to be for its pages to find a place; 1: as fine as you like, again
  // when most of what filled it is gone.
  uint32_t LeastOneIn() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends a drain: moves what changed since the last one into the samples of `delta`.
  void Finish(ProfileDelta& delta) ABSL_LOCKS_EXCLUDED(mutex_);

  // What touching a page takes, ns, as measured on some of our own.
  static double MeasureTouch();

  // Looks once at all pages, on the calling thread, which it keeps waiting for 100 ms.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t pages() const ABSL_LOCKS_EXCLUDED(mutex_);
  // That the known pages of a process stand for.
  int64_t BytesOf(int32_t pid) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Why pages of some process cannot be looked at; empty when they can.
  std::string note() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Page {
    uint64_t address = 0;
    uint64_t serial = 0;
    uint32_t one_in = 1;
  };
  struct Process {
    int32_t pid = 0;
    uint64_t looked = 0;  // the greatest serial that was looked at
    int absent = 0;       // how often in a row it was none of the targets'
  };
  struct Seen;

  void Run();
  void RemoveProcesses(absl::FunctionRef<bool(Process& process)> gone)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `end`: of the serials that are looked at.
  void LookAt(ThreadId id, const Process& process, uint64_t end) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Page> PagesOf(ThreadId id, uint64_t end) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps of the known pages those of a sample of one in so many.
  void Thin(uint32_t one_in) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t seed_;
  CpuUse* const cpu_use_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t one_in_ ABSL_GUARDED_BY(mutex_) = 1;
  uint32_t least_one_in_ ABSL_GUARDED_BY(mutex_) = 1;
  LiveSet pages_ ABSL_GUARDED_BY(mutex_){Kind::kResident};
  std::map<ThreadId, Process> processes_ ABSL_GUARDED_BY(mutex_);
  std::string note_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_RESIDENT_PAGES_H_
