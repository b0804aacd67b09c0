// The interface through which the reconciler attaches and detaches probes. Tests have a fake.
#ifndef PROFD_DAEMON_PROBES_HANDS_H_
#define PROFD_DAEMON_PROBES_HANDS_H_

#include <cstdint>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/probes/wanted.h"

namespace profd {

// A guard that stays while probes of the set in the module come and go (adr/0017).
using GuardKey = std::pair<ProbeSet, WatchId>;

// Whether hits of an allocator's probes count.
enum class Gate : uint8_t {
  kUnknown,  // they count, but gaps cannot be told
  kClosed,   // they do not: some probes are being attached or detached
  kOpen,
};

// All but SetGate are called only by the reconciler's worker, and may take long.
class ProbeHands {
 public:
  virtual ~ProbeHands() = default;
  // Attaches all probes or, after an error, none.
  virtual absl::Status Attach(const ProbeKey& key, const std::vector<ProbePlace>& places) = 0;
  // Attaches probes and then detaches the old ones of the same key. What both see is counted once.
  // After an error the old ones are still attached.
  virtual absl::Status Replace(const ProbeKey& key, const std::vector<ProbePlace>& places) = 0;
  // Returns when all are detached.
  virtual void Detach(const std::vector<ProbeKey>& keys) = 0;
  // No probe is attached at their places any more.
  virtual void DropGuards(const std::vector<GuardKey>& guards) = 0;
  // OK if the process needs the probes, else the reason why not.
  virtual absl::Status Look(const ProbeKey& key) = 0;
  // Thread-safe and quick.
  virtual void SetGate(const ProbedModule& where, Gate gate) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_HANDS_H_
