#include "daemon/source/malloc.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/source/burst_estimate.h"
#include "daemon/source/record.h"

namespace profd {

MallocSource::MallocSource(const SourceContext& context, ModulesSource* modules, BurstPlan plan,
                           uint64_t seed)
    : context_(context),
      modules_(modules),
      knob_(plan),
      bursts_(context.kernel, &modules->modules(), modules->probes()->bursts(), plan, seed) {}

void MallocSource::Detach() {
  detached_ = true;
  bursts_.SetOn(false);
}

absl::Status MallocSource::Apply() {
  if (std::exchange(detached_, false)) bursts_.SetOn(true);
  bursts_.SetPlan(knob_.PlanAt(knob_.level()));
  return absl::OkStatus();
}

std::vector<uint32_t> MallocSource::records() const {
  return {PROFD_RECORD_WATCHED, PROFD_RECORD_EXEC};
}

absl::Status MallocSource::OnRecord(uint32_t type, std::span<const uint8_t> bytes) {
  if (type == PROFD_RECORD_EXEC) {
    ASSIGN_OR_RETURN(const auto exec, DecodeRecord<profd_exec_record>(bytes));
    bursts_.OnExec(exec.pid);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto watched, DecodeRecord<profd_watched_record>(bytes));
  const WatchId id{static_cast<uint16_t>(watched.watch)};
  if (modules_->modules().GlibcIn(id)) bursts_.OnMapped(watched.pid, id);
  return absl::OkStatus();
}

absl::Status MallocSource::Drain(ProfileDelta& delta) {
  delta.bursts_on = !detached_ && bursts_.watching();
  if (modules_->found().glibcs == 0) return absl::OkStatus();
  const std::vector<BurstResult> bursts = bursts_.TakeSlice();
  for (const BurstResult& burst : bursts) EstimateBurst(burst, delta, totals_);
  knob_.Learn(bursts, context_.kernel->MallocCost(), bursts_.traps());
  std::erase_if(totals_,
                [this](const auto& entry) { return !modules_->modules().Knows(entry.first); });
  return absl::OkStatus();
}

void MallocSource::Costs(std::vector<CostRow>& rows) const {
  const profd_malloc_cost cost = context_.kernel->MallocCost();
  rows.push_back({.account = "malloc",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(MallocKnob::InPathNs(cost, bursts_.traps())),
                  .events = static_cast<int64_t>(cost.calls),
                  .planned = true});
}

void MallocSource::Learn(const Period& period) {
  if (knob_.PlanAt(knob_.level()).interval_ns == 0) knob_.PassWithout(period.seconds);
}

std::string MallocSource::WhyOff() const {
  if (detached_) return kPausedNote;
  return bursts_.plan().interval_ns > 0 ? "" : kShedNote;
}

std::optional<LayerState> MallocSource::Status() const {
  LayerState layer = {.name = "bursts", .on = false, .note = WhyOff()};
  layer.on = layer.note.empty();
  return layer;
}

void MallocSource::Publish(CollectorState& state) const {
  const BurstPlan plan = bursts_.plan();
  for (AllocatorState& allocator : bursts_.States()) {
    AllocatorUse& use = state.allocators.emplace_back();
    const auto totals = totals_.find(allocator.module);
    if (totals != totals_.end()) use.totals = totals->second;
    use.state = std::move(allocator);
    if (!use.state.note.empty()) continue;
    use.state.note = WhyOff();
    if (!use.state.note.empty()) continue;
    use.state.note = absl::StrFormat("estimated from %d tracing bursts, one of %g ms every %g s",
                                     bursts_.bursts(), static_cast<double>(plan.length_ns) / 1e6,
                                     static_cast<double>(plan.interval_ns) / 1e9);
  }
}

}  // namespace profd
