#include "daemon/probes/told_objects.h"

#include <memory>
#include <utility>
#include <vector>

#include "bpf/abi.h"

namespace profd {
absl::StatusOr<std::vector<ProbePlace>> ToldObjects::PlacesOf(const OtelMemory& info,
                                                              WatchId module) const {
  const auto id = static_cast<uint64_t>(module);
  std::vector<ProbePlace> places;
  for (const auto& [kind, found] :
       {std::pair(PROFD_USDT_ALLOC, &info.alloc), std::pair(PROFD_USDT_FREE, &info.free)}) {
    for (const UsdtPlace& usdt : *found) {
      ASSIGN_OR_RETURN(const uint32_t number, kernel_->NumberOfArguments(usdt.arguments));
      places.push_back({.offset = usdt.offset,
                        .cookie = PROFD_USDT_COOKIE(kind, usdt.stepped, id, number),
                        .semaphore = usdt.semaphore});
    }
  }
  return places;
}

void ToldObjects::Want(const ProbedModule& where, const OtelMemory& info) {
  const auto [at, is_new] = modules_.try_emplace(where.second);
  WantedProbes& wanted = at->second;
  if (is_new) {
    wanted.why_none = info.note;
    absl::StatusOr<std::vector<ProbePlace>> places = PlacesOf(info, where.second);
    if (places.ok()) {
      wanted.places = std::make_shared<const std::vector<ProbePlace>>(*std::move(places));
    } else {
      wanted.why_none = std::string(places.status().message());
    }
  }
  reconciler_->Want(KeyOf(ProbeSet::kTold, where), wanted);
}

std::optional<ProbeState> ToldObjects::StateOf(const ProbedModule& where) const {
  return reconciler_->StateOf(KeyOf(ProbeSet::kTold, where));
}

std::optional<LiveSampling> ToldObjects::SourceOf(const ProbedModule& where) const {
  const std::optional<ProbeState> state = StateOf(where);
  if (!state || state->since_ns == 0) return std::nullopt;
  return LiveSampling{.since_ns = state->since_ns};
}

std::map<ProbedModule, LiveSampling> ToldObjects::Sources() const {
  std::map<ProbedModule, LiveSampling> sources;
  reconciler_->ForEach(ProbeSet::kTold, [&](const ProbeKey& key, const ProbeState& state) {
    if (state.since_ns == 0) return;
    sources.emplace(ProbedModule(key.pid, key.module), LiveSampling{.since_ns = state.since_ns});
  });
  return sources;
}

}  // namespace profd
