#include "daemon/target/remove_probes.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace profd {

void RemoveProbes(std::vector<Probe> probes, size_t at_once) {
  // One by one where a probe has a link for each of its places: the kernel waits at each.
  std::vector<PlaceLinks> links;
  for (Probe& probe : probes) {
    if (probe.links.multi.ok()) links.emplace_back().multi = std::move(probe.links.multi);
    for (UniqueLink& link : probe.links.single) {
      links.emplace_back().single.push_back(std::move(link));
    }
  }
  const size_t threads = std::min(links.size(), at_once);
  const auto take_out = [&links, threads](size_t first) {
    for (size_t i = first; i < links.size(); i += threads) links[i] = {};
  };
  std::vector<std::thread> others;
  for (size_t first = 1; first < threads; ++first) others.emplace_back(take_out, first);
  if (!links.empty()) take_out(0);
  for (std::thread& other : others) other.join();
  // Their guards go now.
}

}  // namespace profd
