// What the collector lets others see and ask for.
#ifndef PROFD_DAEMON_COLLECT_CONTROL_H_
#define PROFD_DAEMON_COLLECT_CONTROL_H_

#include "daemon/base/status.h"
#include "daemon/source/state.h"

namespace profd {

// Thread-safe.
class CollectorControl {
 public:
  virtual ~CollectorControl() = default;
  // Drains the kernel and appends to the store; returns when the store reaches up to the call.
  // Errors: Unavailable when the collector is stopping.
  virtual absl::Status DrainNow() = 0;
  // Takes every program out of the targets' path and stops ticks and drains, or goes on. What was
  // collected stays. Returns when it is so. Errors: Unavailable when the collector is stopping, and
  // what the kernel refuses.
  virtual absl::Status SetPaused(bool paused) = 0;
  virtual CollectorState State() const = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_CONTROL_H_
