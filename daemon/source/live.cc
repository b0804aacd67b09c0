#include "daemon/source/live.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/source/record.h"

namespace profd {
namespace {

// The note on missed objects; empty if there are none.
std::string LiveNote(uint64_t still_counted, uint64_t not_counted) {
  if (still_counted == 0 && not_counted == 0) return "";
  return absl::StrCat("in all processes, ", not_counted, " sampled objects were missed, and ",
                      still_counted, " freed ones are still counted");
}

}  // namespace

std::vector<uint32_t> LiveSource::records() const {
  return {PROFD_RECORD_LIVE_HEAP, PROFD_RECORD_EXEC};
}

absl::Status LiveSource::OnRecord(uint32_t type, std::span<const uint8_t> bytes) {
  if (type == PROFD_RECORD_EXEC) {
    ASSIGN_OR_RETURN(const auto exec, DecodeRecord<profd_exec_record>(bytes));
    heap_.OnExec(exec.pid, context_.clock->MonotonicNs());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto live, DecodeRecord<profd_live_heap_record>(bytes));
  const auto sampling =
      modules_->probes()->LiveSourceOf({live.pid, WatchId{static_cast<uint16_t>(live.watch_id)}});
  if (sampling) heap_.Apply(live, *sampling, context_.clock->WallOffsetNs());
  return absl::OkStatus();
}

absl::Status LiveSource::Drain(ProfileDelta& delta) {
  heap_.Finish(delta);
  return absl::OkStatus();
}

void LiveSource::OnProcesses(const std::set<int32_t>& /*pids*/) {
  heap_.KeepOnly(modules_->probes()->LiveSources());
}

void LiveSource::Publish(CollectorState& state) const {
  for (AllocatorUse& use : state.allocators) {
    if (use.state.live_since_ns == 0) continue;
    const std::map<WatchId, LiveTotals> totals =
        use.state.told ? told_->heap().Live() : heap_.Totals();
    LiveTotals live;
    const auto found = totals.find(use.state.module);
    if (found != totals.end()) live = found->second;
    use.live_since_wall_ns =
        std::max(use.state.live_since_ns, live.since_ns) + context_.clock->WallOffsetNs();
    use.live_bytes = RoundedSum(live.bytes);
    use.live_objects = RoundedSum(live.objects);
    if (use.state.live_note.empty()) {
      use.state.live_note =
          LiveNote(state.losses[PROFD_LOSS_LIVE_GONE],
                   state.losses[PROFD_LOSS_LIVE_BORN] + heap_.dropped() + told_->heap().dropped());
    }
  }
}

}  // namespace profd
