// What puts probes in and takes them out. Tests have others.
#ifndef PROFD_DAEMON_PROBES_HANDS_H_
#define PROFD_DAEMON_PROBES_HANDS_H_

#include <cstdint>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/probes/wanted.h"

namespace profd {

// A guard that stands while probes of the set in the module come and go (adr/0017).
using GuardKey = std::pair<ProbeSet, ModuleId>;

// Whether what comes by at the probes of an allocator counts.
enum class Gate : uint8_t {
  kUnknown,  // it was never said: all counts, but nothing tells of gaps
  kClosed,   // some probes are still to come or to go: nothing counts
  kOpen,
};

// All but SetGate is called by the reconciler's worker alone, and may take long.
class ProbeHands {
 public:
  virtual ~ProbeHands() = default;
  // Puts probes in. All of them stand, or none.
  virtual absl::Status Attach(const ProbeKey& key, const std::vector<ProbePlace>& places) = 0;
  // The same where others of that key stand, which go when the new ones stand: what both see is
  // told once. After an error the old ones stand.
  virtual absl::Status Replace(const ProbeKey& key, const std::vector<ProbePlace>& places) = 0;
  // Returns when all are out.
  virtual void Detach(const std::vector<ProbeKey>& keys) = 0;
  // No probe stands at them any more.
  virtual void DropGuards(const std::vector<GuardKey>& guards) = 0;
  // Whether the process needs the probes; else why not.
  virtual absl::Status Look(const ProbeKey& key) = 0;
  // Thread-safe and quick.
  virtual void SetGate(const ProbedModule& where, Gate gate) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_HANDS_H_
