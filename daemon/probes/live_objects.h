// Probes at the objects that jemalloc samples, where a process runs with its profiling.
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

// What processes say of their sampling. Thread-safe.
class LiveSettings {
 public:
  struct Said {
    uint64_t sample_bytes = 0;
    std::string note;  // what is missing all the same
  };

  // `modules` must outlive this.
  explicit LiveSettings(const Modules* modules) : modules_(modules) {}

  // Reads them, which may take long. Why nothing needs to be followed there, if that is so.
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
  // Both must outlive this. Before it attaches, `reconciler` has `settings` read.
  LiveObjects(Reconciler* reconciler, LiveSettings* settings)
      : reconciler_(reconciler), settings_(settings) {}

  void Want(const ProbedModule& where, const JemallocInfo& info);
  void Unwant(const ProbedModule& where);
  // Reads the settings again: they may have changed.
  void Refresh() { reconciler_->LookAgain(ProbeSet::kLive); }

  // What counts the live heap there; empty when nothing does.
  std::optional<LiveSampling> SourceOf(const ProbedModule& where) const;
  std::map<ProbedModule, LiveSampling> Sources() const;
  // For a person: what is missing there; empty when nothing is.
  std::string NoteOf(const ProbedModule& where) const;

 private:
  Reconciler* const reconciler_;
  LiveSettings* const settings_;
  std::map<ModuleId, WantedProbes> modules_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_LIVE_OBJECTS_H_
