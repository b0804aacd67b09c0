#include "daemon/source/mapping.h"

#include "absl/strings/str_cat.h"
#include "daemon/source/probe_cost.h"

namespace profd {

absl::Status MappingSource::Apply() {
  detached_ = false;
  // Takes effect at once, whereas probes take a while.
  context_.kernel->SetMapSampling(one_in());
  modules_->probes()->SetMapCallsOn(one_in() != 0);
  return absl::OkStatus();
}

absl::Status MappingSource::Drain(ProfileDelta& delta) {
  delta.mappings_on = Status()->on;
  return absl::OkStatus();
}

void MappingSource::Costs(std::vector<CostRow>& rows) const {
  const profd_probe_cost cost = context_.kernel->MapCost();
  rows.push_back({.account = "mapping",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(ProbeInPathNs(cost, modules_->probes()->traps())),
                  .events = static_cast<int64_t>(cost.events)});
}

void MappingSource::Learn(const Period& period) {
  knob_.Learn({.seconds = period.seconds,
               .on = one_in() != 0,
               .cost = context_.kernel->MapCost(),
               .traps = modules_->probes()->traps()});
}

std::optional<LayerState> MappingSource::Status() const {
  LayerState layer = {.name = "mappings", .on = false, .note = {}};
  if (detached_) {
    layer.note = kPausedNote;
    return layer;
  }
  if (one_in() == 0) {
    layer.note = kShedNote;
    return layer;
  }
  const MapCallState calls = modules_->probes()->MapCalls();
  layer.on = calls.watched > 0;
  if (calls.processes == 0) {
    layer.note = "no process has a supported libc";
  } else if (calls.watched < calls.processes) {
    layer.note = absl::StrCat("probes attached in ", calls.watched, " of ", calls.processes,
                              " processes", calls.failed.empty() ? "" : ": ", calls.failed);
  }
  return layer;
}

}  // namespace profd
