// Probes in the allocators and libcs of targets: which process runs which, and the probes that
// stand in them.
#ifndef PROFD_DAEMON_TARGET_HEAP_PROBES_H_
#define PROFD_DAEMON_TARGET_HEAP_PROBES_H_

#include <bitset>
#include <cstddef>
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
#include "bpf/abi.h"
#include "daemon/kernel/kernel.h"
#include "daemon/target/modules.h"
#include "daemon/target/remove_probes.h"
#include "daemon/target/trap.h"

namespace profd {

// An allocator and the processes that run it.
struct AllocatorState {
  ModuleId module{};
  ModuleIdentity identity;
  std::string allocator;  // "jemalloc", "otel_memory"
  std::string version;    // may be empty
  std::string found_by;   // empty: the place to watch was not found
  std::vector<int32_t> pids;
  bool watched = false;     // probes stand in all of them
  bool slow_paths = false;  // and in its slow path, for events in code that was not found
  size_t places = 0;        // that looked like an event's, by code
  size_t wrong_places = 0;  // of these, those without probes, as no event came by there
  std::string note;         // what is missing and what to do about it
  // Since when the live heap of all of them is counted, monotonic; 0: it is not.
  int64_t live_since_ns = 0;
  uint64_t sample_bytes = 0;  // mean bytes from one object that is counted to the next
  std::string live_note;      // what is missing of the live heap and what to do about it
  bool told = false;          // it tells of the objects that it samples, at USDT probes
  bool estimated = false;     // it keeps no count of its own: what went through it is an estimate
};

// How the live heap of a process is counted.
struct LiveSampling {
  int64_t since_ns = 0;       // monotonic; objects from before are not known
  uint64_t sample_bytes = 0;  // mean bytes allocated from one sampled object to the next
};

// The probes at the calls by which processes change their address spaces.
struct MapCallState {
  size_t processes = 0;  // that run a libc with such calls
  size_t watched = 0;    // of these, those with probes, or whose probes will be put back
  std::string failed;    // why there are none in one of the others; may be empty
};

// Thread-safe. Puts probes in and takes them out on a thread of its own: the kernel takes its time
// for either.
class HeapProbes {
 public:
  // A process and the module in it that holds an allocator, or is its libc.
  using Place = std::pair<int32_t, ModuleId>;

  // Both must outlive this.
  HeapProbes(Kernel* kernel, const Modules* modules);
  ~HeapProbes();

  // A process of a target maps a module that holds an allocator, or is a libc. May repeat. A libc's
  // calls are watched in processes that outlive two KeepOnly: those of a moment are not worth it.
  void OnMapped(int32_t pid, ModuleId module);
  // A process became another program: it maps what it is told of from now on.
  void OnExec(int32_t pid);
  // The processes of all targets, as they are now: probes in others go.
  void KeepOnly(const std::set<int32_t>& pids);
  // Takes all probes out, or puts them back. Where they stood they will stand again.
  void SetOn(bool on);
  // The same of those at the allocators' events only; those at sampled objects stay, as what is
  // live can be followed without a break only.
  void SetEventsOn(bool on);
  // The same of those at allocators' slow paths.
  void SetSlowPathsOn(bool on);
  // Events of that allocator run through code that was not found: its slow path is watched from now
  // on, in all processes, where its functions are known. May repeat.
  void WatchSlowPaths(ModuleId module);
  // Looks at what came by at the places that code alone said to be an event's, and takes the probes
  // out of those that are none.
  void JudgePlaces();
  // The same of those at the calls of libcs.
  void SetMapCallsOn(bool on);
  // The same of those at which allocators tell of the objects that they sample.
  void SetToldOn(bool on);
  // Reads again what the processes say of their sampling: they may have changed it.
  void Refresh();
  // Waits until everything asked for so far is done, the calls of libcs in young processes too, but
  // not beyond `deadline_ns` (monotonic), and for those calls not beyond `map_calls_ns`.
  void WaitIdle(int64_t deadline_ns, int64_t map_calls_ns);

  // A probe stands at an allocator's events somewhere, or will when they are put back.
  bool watching() const;
  MapCallState MapCalls() const;
  std::vector<AllocatorState> States() const;
  // What counts the live heap there; empty when nothing does.
  std::optional<LiveSampling> LiveSourceOf(const Place& place) const;
  std::map<Place, LiveSampling> LiveSources() const;
  // An object was told of: from now on nothing else is asked of the allocators of that process.
  // What counts the objects there; empty when nothing does.
  std::optional<LiveSampling> OnTold(const Place& place);
  std::map<Place, LiveSampling> ToldSources() const;
  // Such an object was told of since the process runs its program.
  bool HasTold(int32_t pid) const;
  // As measured on functions of our own, before the first probe.
  Traps traps() const;

 private:
  // By the numbers of places in a module.
  using Numbers = std::bitset<PROFD_HEAP_NUMBERS>;

  // Probes of one program, each in one of the places that are for it.
  struct Group {
    bool on = true;
    std::set<Place> wanted;
    std::map<Place, Probe> probes;
    std::set<Place> stood;    // where a probe could be put
    std::set<Place> left;     // of the wanted, to other probes: none is to stand there
    std::set<Place> renewed;  // whose probe is to be put in anew, elsewhere in the module
    std::map<Place, std::string> failed;  // why
    StandingGuards guards;                // also between slices
    size_t most = SIZE_MAX;               // probes at a time

    // Some probes that are not to stand any more, and where they do; none when there is none.
    std::vector<Probe> TakeStale(bool all_on, std::vector<Place>* places = nullptr);
    // Guards of modules in which no place is wanted any more, and of all when nothing is on.
    std::vector<ProbeGuard> TakeUnusedGuards(bool all_on);
    // Where one is missing.
    std::optional<Place> FindMissing() const;
    bool Forget(absl::FunctionRef<bool(const Place&)> gone);
  };

  // What follows the objects that a process samples, and what is known of that.
  struct Live {
    std::optional<Probe> probe;
    std::optional<LiveSampling> source;
    std::string note;
    bool stale = false;  // to be read again
  };

  // Probes at which a process tells of the objects that it samples.
  struct Told {
    bool only = false;   // the module holds no allocator that could be watched otherwise
    bool tried = false;  // to put the probe in, since it was last out
    bool stood = false;
    std::optional<Probe> probe;
    int64_t since_ns = 0;  // monotonic; 0: nothing is counted
    std::string failed;    // why it could not be put in
  };

  void Work();
  // What is known of these processes; their probes go.
  void Forget(absl::FunctionRef<bool(int32_t pid)> gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One probe more or some less. False when nothing is to be done.
  bool Step() ABSL_LOCKS_EXCLUDED(mutex_);
  void AddSlowPaths(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Numbers WrongIn(ModuleId module) const ABSL_LOCKS_EXCLUDED(mutex_);
  // While a place is closed nothing counts there. Opened are those whose probes stand and are to.
  void Close(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Probe> AttachEvents(const Place& place);
  absl::StatusOr<Probe> AttachSlowPaths(const Place& place);
  absl::StatusOr<Probe> AttachHeap(const Place& place, const std::vector<HeapPlace>& places);
  absl::StatusOr<Probe> AttachMapCalls(const Place& place);
  // Something is to be done.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { idle_ = settled_ = false; }
  void Renew(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  // Enters what became of one.
  void Settle(const Place& place, absl::StatusOr<Probe> probe, const char* what, Group& group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads the settings of a process that runs jemalloc, and follows its sampled objects if there
  // are any.
  void FollowObjects(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Counts(const Place& place, const Live& live) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Probe> AttachTold(const Place& place);
  void FollowTold(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddToldState(const Place& place, std::map<ModuleId, AllocatorState>& states) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls functions with a probe in them, and without.
  Traps MeasureTraps();

  Kernel* const kernel_;
  const Modules* const modules_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool on_ ABSL_GUARDED_BY(mutex_) = true;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;
  bool settled_ ABSL_GUARDED_BY(mutex_) = true;  // nothing but calls of libcs is left to be done
  Traps traps_ ABSL_GUARDED_BY(mutex_);
  Group events_ ABSL_GUARDED_BY(mutex_);  // of allocators
  std::set<Place> closed_ ABSL_GUARDED_BY(mutex_);
  std::map<ModuleId, Numbers> wrong_ ABSL_GUARDED_BY(mutex_);  // places that are no events'
  uint64_t refusals_ ABSL_GUARDED_BY(mutex_) = 0;              // when places were last judged
  // Beside those, while they stand, in the slow paths of these modules.
  Group slow_paths_ ABSL_GUARDED_BY(mutex_);
  std::set<ModuleId> slow_modules_ ABSL_GUARDED_BY(mutex_);
  Group map_calls_ ABSL_GUARDED_BY(mutex_);
  std::map<Place, bool> young_ ABSL_GUARDED_BY(mutex_);  // of libcs; true: seen by a KeepOnly
  std::map<Place, Live> live_ ABSL_GUARDED_BY(mutex_);   // the worker adds and removes
  bool told_on_ ABSL_GUARDED_BY(mutex_) = true;
  std::map<Place, Told> told_ ABSL_GUARDED_BY(mutex_);  // the worker removes
  std::set<int32_t> heard_ ABSL_GUARDED_BY(mutex_);     // processes that told of an object
  std::thread worker_;                                  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_HEAP_PROBES_H_
