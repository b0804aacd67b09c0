// Attaches and detaches probes through the kernel.
#ifndef PROFD_DAEMON_PROBES_KERNEL_HANDS_H_
#define PROFD_DAEMON_PROBES_KERNEL_HANDS_H_

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/kernel/kernel.h"
#include "daemon/probes/hands.h"
#include "daemon/probes/takers.h"
#include "daemon/probes/trap.h"
#include "daemon/target/modules.h"

namespace profd {

class KernelHands final : public ProbeHands {
 public:
  // As ProbeHands::Look.
  using Looker = std::function<absl::Status(const ProbeKey& key)>;

  // Both must outlive this.
  KernelHands(ProbeKernel* kernel, const Modules* modules, Looker look);

  absl::Status Attach(const ProbeKey& key, const std::vector<ProbePlace>& places) override;
  absl::Status Replace(const ProbeKey& key, const std::vector<ProbePlace>& places) override;
  void Detach(const std::vector<ProbeKey>& keys) override;
  void DropGuards(const std::vector<GuardKey>& guards) override;
  absl::Status Look(const ProbeKey& key) override { return look_(key); }
  void SetGate(const ProbedModule& where, Gate gate) override;

  // Thread-safe. Measured on our own functions before the first probe other than a burst's.
  Traps traps() const;

 private:
  void MeasureTraps();
  absl::StatusOr<Probe> Put(const ProbeKey& key, const std::vector<ProbePlace>& places);

  ProbeKernel* const kernel_;
  const Modules* const modules_;
  const Looker look_;
  mutable absl::Mutex mutex_;
  Traps traps_ ABSL_GUARDED_BY(mutex_);
  Takers takers_;
  // Guards outlive probes.
  std::map<GuardKey, ProbeGuard> guards_;
  std::map<ProbeKey, Probe> probes_;
};

// Attaches probes of a set's program to places of a file.
absl::StatusOr<Probe> PutProbes(ProbeKernel* kernel, ProbeSet set, int file, int32_t pid,
                                std::span<const ProbePlace> places);

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_KERNEL_HANDS_H_
