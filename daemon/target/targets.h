// Finds the processes of the selectors and marks them in the kernel.
#ifndef PROFD_DAEMON_TARGET_TARGETS_H_
#define PROFD_DAEMON_TARGET_TARGETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"
#include "daemon/target/selector.h"

namespace profd {

// Target ids are selector index + 1; without selectors, 1 is everything.
inline constexpr uint32_t kEveryProcess = 1;

// Used by the collector's thread only.
class Targets {
 public:
  // `kernel` must outlive this.
  Targets(Kernel* kernel, std::vector<Selector> selectors)
      : kernel_(kernel), selectors_(std::move(selectors)) {}

  // Marks what runs now, with all descendants. NotFound when a PID does not exist.
  absl::Status MarkRunning();

  // A process became another program: marks it when it matches a name. True when it did.
  bool OnExec(int32_t pid);

  // Catches what no event told of (a process that renamed itself). True when something was marked.
  bool Rescan();

  bool everything() const { return selectors_.empty(); }
  const std::vector<Selector>& selectors() const { return selectors_; }

 private:
  // True when it was not marked before.
  absl::StatusOr<bool> MarkProcess(const ProcessInfo& process, uint32_t target);
  // True when any was not marked before.
  bool MarkAll(const std::vector<ProcessInfo>& processes, uint32_t target);

  Kernel* kernel_;
  std::vector<Selector> selectors_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_TARGETS_H_
