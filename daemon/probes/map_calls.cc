#include "daemon/probes/map_calls.h"

#include <memory>
#include <utility>

#include "bpf/abi.h"

namespace profd {
void MapCallProbes::OnMapped(const ProbedModule& where, const std::vector<MapCall>& calls) {
  if (calls.empty() || reconciler_->StateOf(KeyOf(ProbeSet::kMapCalls, where))) return;
  young_.emplace(where, false);
  ProbePlaces& known = modules_[where.second];
  if (known != nullptr) return;
  std::vector<ProbePlace> places;
  for (const MapCall& call : calls) {
    places.push_back(
        {.offset = call.offset, .cookie = PROFD_PROBE_COOKIE(call.call, call.stepped, 0)});
  }
  known = std::make_shared<const std::vector<ProbePlace>>(std::move(places));
}

void MapCallProbes::Want(const ProbedModule& where) {
  reconciler_->Want(KeyOf(ProbeSet::kMapCalls, where),
                    {.places = modules_.at(where.second), .why_none = {}});
}

void MapCallProbes::Forget(int32_t pid) { EraseProcess(pid, young_); }

void MapCallProbes::KeepOnly(const std::set<int32_t>& pids) {
  for (auto it = young_.begin(); it != young_.end();) {
    const auto at = it++;
    if (!pids.contains(at->first.first)) {
      young_.erase(at);
    } else if (std::exchange(at->second, true)) {
      Want(at->first);
      young_.erase(at);
    }
  }
}

void MapCallProbes::GrowUp() {
  for (const auto& [where, seen] : std::exchange(young_, {})) Want(where);
}

MapCallState MapCallProbes::State() const {
  ProbeCounts counts = reconciler_->Count(ProbeSet::kMapCalls);
  return {.processes = counts.wanted, .watched = counts.stood, .failed = std::move(counts.failure)};
}

}  // namespace profd
