#include "daemon/target/remove_probes.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/base/start_thread.h"

namespace profd {
namespace {

template <typename T>
void DropSideBySide(std::vector<T> things, size_t at_once) {
  const size_t threads = std::min(things.size(), at_once);
  const auto drop = [&things, threads](size_t first) {
    for (size_t i = first; i < things.size(); i += threads) things[i] = {};
  };
  std::vector<std::thread> others;
  // Where there can be no more threads the rest is this one's.
  std::vector<size_t> mine;
  if (!things.empty()) mine.push_back(0);
  for (size_t first = 1; first < threads; ++first) {
    if (std::optional<std::thread> other = StartThread(drop, first)) {
      others.push_back(*std::move(other));
    } else {
      mine.push_back(first);
    }
  }
  for (const size_t first : mine) drop(first);
  for (std::thread& other : others) other.join();
}

}  // namespace

void RemoveProbes(std::vector<Probe> probes, size_t at_once) {
  // One by one where a probe has a link for each of its places: the kernel waits at each.
  std::vector<PlaceLinks> links;
  for (Probe& probe : probes) {
    if (probe.links.multi.ok()) links.emplace_back().multi = std::move(probe.links.multi);
    for (UniqueLink& link : probe.links.single) {
      links.emplace_back().single.push_back(std::move(link));
    }
    probe.links.single.clear();
  }
  DropSideBySide(std::move(links), at_once);
  // The guards last.
  DropSideBySide(std::move(probes), at_once);
}

std::vector<ProbeGuard> TakeUnused(StandingGuards& guards,
                                   absl::FunctionRef<bool(ModuleId module)> is_used) {
  std::vector<ProbeGuard> unused;
  std::erase_if(guards, [&](auto& entry) {
    if (is_used(entry.first)) return false;
    unused.push_back(std::move(entry.second));
    return true;
  });
  return unused;
}

}  // namespace profd
