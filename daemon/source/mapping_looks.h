// Decides when to look up which processes map the modules that need probes.
#ifndef PROFD_DAEMON_SOURCE_MAPPING_LOOKS_H_
#define PROFD_DAEMON_SOURCE_MAPPING_LOOKS_H_

#include <cstdint>

#include "daemon/target/modules.h"

namespace profd {

// A look goes through all mappings of all targets, so a drain has one only if something may be new.
// Additional early looks come between drains, because a new program needs two: one to find its
// modules, and one to find who maps them after they were read. Times are monotonic. Not
// thread-safe.
class MappingLooks {
 public:
  // The time after an exec by which most programs have mapped their libraries; the least time
  // between two early looks, absolute and as a multiple of the duration of a look.
  static constexpr int64_t kAfterExecNs = 50'000'000;
  static constexpr int64_t kLeastPauseNs = 200'000'000;
  static constexpr int64_t kRarity = 500;
  // Least time between looks that only bursts need.
  static constexpr int64_t kBurstPauseNs = 4'000'000'000;

  const FoundModules& found() const { return found_; }

  // There may be unknown mappings.
  void Want() { wanted_ = true; }
  // A target called exec.
  void OnExec(int64_t now_ns);
  // At a drain, with the modules found so far. `more_processes`: there are new processes.
  void OnDrain(const FoundModules& found, bool more_processes, int64_t now_ns);
  // Whether a look is due at this drain.
  bool wanted() const { return wanted_; }
  // A look began at `began_ns`. Programs started shortly before have not mapped their libraries
  // yet.
  void Looked(bool ok, int64_t began_ns);

  // Whether a look is due between drains. While other modules are still being read, looks for new
  // modules are left to the drains, because stacks through the others would be incomplete.
  bool IsEarlyDue(const FoundModules& found, bool reading, int64_t now_ns);
  void LookedEarly(bool ok, int64_t began_ns, int64_t took_ns);

 private:
  // Stores the modules found so far. True if one is new: any process may map it.
  bool Learn(const FoundModules& found);

  FoundModules found_;
  bool wanted_ = false;
  bool burst_wanted_ = false;  // there are processes without bursts
  int64_t next_burst_ns_ = 0;
  // Times of the first exec not covered by an early look, and of the last exec; 0: none.
  int64_t execed_ns_ = 0;
  int64_t last_exec_ns_ = 0;
  int64_t next_early_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MAPPING_LOOKS_H_
