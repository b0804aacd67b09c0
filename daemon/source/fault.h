// The source `fault`: a sample of resident pages, and who touched them first.
#ifndef PROFD_DAEMON_SOURCE_FAULT_H_
#define PROFD_DAEMON_SOURCE_FAULT_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/fault_knob.h"
#include "daemon/source/resident_pages.h"
#include "daemon/source/source.h"
#include "daemon/source/thread.h"
#include "daemon/source/unsampled_pages.h"

namespace profd {

class FaultSource final : public Source {
 public:
  // `threads` must outlive this.
  FaultSource(const SourceContext& context, const ThreadSource* threads);

  const char* name() const override { return "fault"; }
  absl::Status Attach() override;
  void Detach() override;
  absl::Status Apply() override;
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  absl::Status Drain(ProfileDelta& delta) override;
  void OnProcesses(const std::set<int32_t>& pids) override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;

 private:
  // Turns records of touched pages on or off.
  void SetTold(bool told);

  const SourceContext context_;
  const ThreadSource* const threads_;
  FaultKnob knob_;
  ResidentPages pages_;
  UnsampledPages unsampled_;
  std::set<int32_t> pids_;  // processes of all targets
  double trap_ns_ = 0;      // time to enter and leave the program
  bool detached_ = false;
  int64_t learned_faults_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_FAULT_H_
