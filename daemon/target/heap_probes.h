// Probes in the allocators of targets: which process runs which, and the probes that stand in them.
#ifndef PROFD_DAEMON_TARGET_HEAP_PROBES_H_
#define PROFD_DAEMON_TARGET_HEAP_PROBES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "daemon/kernel/kernel.h"
#include "daemon/target/modules.h"

namespace profd {

// An allocator and the processes that run it.
struct AllocatorState {
  ModuleId module{};
  ModuleIdentity identity;
  std::string allocator;  // "jemalloc"
  std::string version;    // may be empty
  std::string found_by;   // empty: the place to watch was not found
  std::vector<int32_t> pids;
  bool watched = false;  // probes stand in all of them
  std::string note;      // what is missing and what to do about it
  // Since when the live heap of all of them is counted, monotonic; 0: it is not.
  int64_t live_since_ns = 0;
  uint64_t sample_bytes = 0;  // mean bytes from one object that is counted to the next
  std::string live_note;      // what is missing of the live heap and what to do about it
  bool estimated = false;     // it keeps no count of its own: what went through it is an estimate
};

// How the live heap of a process is counted.
struct LiveSource {
  int64_t since_ns = 0;       // monotonic; objects from before are not known
  uint64_t sample_bytes = 0;  // mean bytes allocated from one sampled object to the next
};

// Thread-safe. Puts probes in and takes them out on a thread of its own: the kernel takes its time
// for either.
class HeapProbes {
 public:
  // A process and the module in it that holds an allocator.
  using Place = std::pair<int32_t, ModuleId>;

  // Both must outlive this.
  HeapProbes(Kernel* kernel, const Modules* modules);
  ~HeapProbes();

  // A process of a target maps a module that holds an allocator. May repeat.
  void OnMapped(int32_t pid, ModuleId module);
  // A process became another program: it maps what it is told of from now on.
  void OnExec(int32_t pid);
  // The processes of all targets, as they are now: probes in others go.
  void KeepOnly(const std::set<int32_t>& pids);
  // Takes all probes out, or puts them back. Where they stood they will stand again.
  void SetOn(bool on);
  // The same of those at the allocators' events only; those at sampled objects stay, as what is live can
  // be followed without a break only.
  void SetEventsOn(bool on);
  // Reads again what the processes say of their sampling: they may have changed it.
  void Refresh();
  // Waits until everything asked for so far is done, or `deadline_ns` (monotonic).
  void WaitIdle(int64_t deadline_ns);

  // A probe stands somewhere, or will when they are put back.
  bool watching() const;
  std::vector<AllocatorState> States() const;
  // What counts the live heap there; empty when nothing does.
  std::optional<LiveSource> LiveSourceOf(const Place& place) const;
  std::map<Place, LiveSource> LiveSources() const;
  // What the way into the program at a probe and out of it again takes, as measured on a function
  // of our own; 0 before the first probe.
  double trap_ns() const;

 private:
  // What follows the objects that a process samples, and what is known of that.
  struct Live {
    std::optional<Probe> probe;
    std::optional<LiveSource> source;
    std::string note;
    bool stale = false;  // to be read again
  };

  void Work();
  // What is known of these processes; their probes go.
  void Forget(absl::FunctionRef<bool(int32_t pid)> gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One probe more or one less. False when nothing is to be done.
  bool Step() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Probe> Attach(const Place& place);
  // Reads the settings of a process that runs jemalloc, and follows its sampled objects if there
  // are any.
  void FollowObjects(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Counts(const Place& place, const Live& live) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls a function with a probe in it, and without.
  double MeasureTrap();

  Kernel* const kernel_;
  const Modules* const modules_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool on_ ABSL_GUARDED_BY(mutex_) = true;
  bool events_on_ ABSL_GUARDED_BY(mutex_) = true;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;
  double trap_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<Place> wanted_ ABSL_GUARDED_BY(mutex_);
  std::map<Place, Probe> probes_ ABSL_GUARDED_BY(mutex_);
  std::set<Place> stood_ ABSL_GUARDED_BY(mutex_);  // where a probe could be put
  std::map<Place, std::string> failed_ ABSL_GUARDED_BY(mutex_);  // why
  std::map<Place, Live> live_ ABSL_GUARDED_BY(mutex_);           // the worker adds and removes
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_HEAP_PROBES_H_
