// What the collector lets others see and ask for.
#ifndef PROFD_DAEMON_COLLECT_CONTROL_H_
#define PROFD_DAEMON_COLLECT_CONTROL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "daemon/base/status.h"
#include "daemon/profile/look.h"
#include "daemon/profile/profile.h"
#include "daemon/source/state.h"

namespace profd {

// Thread-safe.
class CollectorControl {
 public:
  virtual ~CollectorControl() = default;
  // Returns when the store reaches up to `instant_ns`, or up to the call where that is earlier: at
  // once if it does, else after a drain, which all who ask meanwhile share. Errors:
  // DeadlineExceeded when it does not by `deadline_ns` (both monotonic), Unavailable when the
  // collector is stopping, and why the drain failed.
  virtual absl::Status DrainTo(int64_t instant_ns, int64_t deadline_ns) = 0;
  // Takes every program out of the targets' path and stops ticks and drains, or goes on. What was
  // collected stays. Returns when it is so. Errors: Unavailable when the collector is stopping, and
  // what the kernel refuses.
  virtual absl::Status SetPaused(bool paused) = 0;
  virtual CollectorState State() const = 0;
  // What the threads that `keep` keeps do now. Neither ticks nor drains are waited for, and none
  // has to be on. Errors as of profd::TakeLook.
  virtual absl::StatusOr<Look> TakeLook(absl::FunctionRef<bool(const ThreadInfo&)> keep) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_CONTROL_H_
