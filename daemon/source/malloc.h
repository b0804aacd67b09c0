// The source `malloc`: bytes through glibc's malloc, estimated from tracing bursts.
#ifndef PROFD_DAEMON_SOURCE_MALLOC_H_
#define PROFD_DAEMON_SOURCE_MALLOC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/heap_accounts.h"
#include "daemon/source/malloc_bursts.h"
#include "daemon/source/malloc_knob.h"
#include "daemon/source/module.h"
#include "daemon/source/source.h"

namespace profd {

class MallocSource final : public Source {
 public:
  // `plan`: without throttling. `modules` has probes, and must outlive this.
  MallocSource(const SourceContext& context, ModulesSource* modules, BurstPlan plan, uint64_t seed);

  const char* name() const override { return "malloc"; }
  void Detach() override;
  absl::Status Apply() override;
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  // Takes the results of one burst, and of those that met no calls.
  absl::Status Drain(ProfileDelta& delta) override;
  void OnProcesses(const std::set<int32_t>& pids) override { bursts_.KeepOnly(pids); }
  // Each drain takes one burst with calls.
  bool WantsDrain(bool /*rare*/) const override { return bursts_.ArePlenty(); }
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;
  void Publish(CollectorState& state) const override;

 private:
  std::string WhyOff() const;

  const SourceContext context_;
  const ModulesSource* const modules_;
  MallocKnob knob_;
  bool detached_ = false;
  std::map<WatchId, AllocatorTotals> totals_;
  MallocBursts bursts_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MALLOC_H_
