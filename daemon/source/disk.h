// The source `disk`: requests to block devices.
#ifndef PROFD_DAEMON_SOURCE_DISK_H_
#define PROFD_DAEMON_SOURCE_DISK_H_

#include <optional>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/disk_knob.h"
#include "daemon/source/source.h"

namespace profd {

class DiskSource final : public Source {
 public:
  explicit DiskSource(const SourceContext& context) : kernel_(context.kernel) {}

  const char* name() const override { return "disk"; }
  absl::Status Attach() override;
  void Detach() override;
  absl::Status Apply() override;
  absl::Status Drain(ProfileDelta& delta) override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;

 private:
  DiskKernel* const kernel_;
  DiskKnob knob_;
  absl::Status failed_;  // of the last change
  bool detached_ = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_DISK_H_
