#include "daemon/probes/slow_paths.h"

#include <memory>
#include <utility>
#include <vector>

#include "bpf/abi.h"

namespace profd {

bool SlowPathProbes::Watch(WatchId module, const JemallocInfo& info) {
  const auto [at, is_new] = modules_.try_emplace(module);
  if (!is_new || info.slow_paths.empty()) return false;
  std::vector<ProbePlace> places;
  for (const SlowPath& path : info.slow_paths) {
    const auto place = path.frees ? PROFD_HEAP_JEMALLOC_SLOW_FREE : PROFD_HEAP_JEMALLOC_SLOW_ALLOC;
    const int32_t field = path.frees ? kFreedAtLastEvent : kAllocatedAtLastEvent;
    places.push_back({.offset = path.offset + path.point.skip,
                      .cookie = PROFD_HEAP_SLOW_COOKIE(place, path.point.stepped,
                                                       static_cast<uint64_t>(module), field)});
  }
  at->second = std::make_shared<const std::vector<ProbePlace>>(std::move(places));
  return true;
}

void SlowPathProbes::Want(const ProbedModule& where) {
  const auto at = modules_.find(where.second);
  if (at == modules_.end() || at->second == nullptr) return;
  reconciler_->Want({.set = ProbeSet::kSlowPaths, .pid = where.first, .module = where.second},
                    {.places = at->second, .why_none = {}});
}

void SlowPathProbes::Unwant(const ProbedModule& where) {
  reconciler_->Unwant({.set = ProbeSet::kSlowPaths, .pid = where.first, .module = where.second});
}

}  // namespace profd
