// Probes at jemalloc's sampled objects, in processes that run with jemalloc's profiling.
#ifndef PROFD_DAEMON_PROBES_LIVE_OBJECTS_H_
#define PROFD_DAEMON_PROBES_LIVE_OBJECTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/heap/jemalloc.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/wanted.h"
#include "daemon/target/modules.h"

namespace profd {

// The profiling settings of processes. Thread-safe.
class LiveSettings {
 public:
  struct Said {
    uint64_t sample_bytes = 0;
    std::string note;  // for a person: what is missing
  };

  // `modules` must outlive this.
  explicit LiveSettings(const Modules* modules) : modules_(modules) {}

  // Reads them; may take long. An error says why the process needs no probes.
  absl::Status Read(const ProbedModule& where);
  Said Of(const ProbedModule& where) const;
  void Forget(int32_t pid);
  void KeepOnly(const std::set<int32_t>& pids);

 private:
  const Modules* const modules_;
  mutable absl::Mutex mutex_;
  std::map<ProbedModule, Said> said_ ABSL_GUARDED_BY(mutex_);
};

// Not thread-safe.
class LiveObjects {
 public:
  // Both must outlive this. `reconciler` calls `settings` before it attaches.
  LiveObjects(Reconciler* reconciler, LiveSettings* settings)
      : reconciler_(reconciler), settings_(settings) {}

  void Want(const ProbedModule& where, const JemallocInfo& info);
  void Unwant(const ProbedModule& where);
  // Reads the settings again.
  void Refresh() { reconciler_->LookAgain(ProbeSet::kLive); }

  // Empty if the live heap is not counted there.
  std::optional<LiveSampling> SourceOf(const ProbedModule& where) const;
  std::map<ProbedModule, LiveSampling> Sources() const;
  // For a person: what is missing there; empty if nothing is.
  std::string NoteOf(const ProbedModule& where) const;

 private:
  Reconciler* const reconciler_;
  LiveSettings* const settings_;
  std::map<WatchId, WantedProbes> modules_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_LIVE_OBJECTS_H_
