#include "daemon/target/remove_probes.h"

#include <algorithm>
#include <thread>

namespace profd {

void RemoveProbes(std::vector<Probe> probes, size_t at_once) {
  const size_t threads = std::min(probes.size(), at_once);
  const auto take_out = [&probes, threads](size_t first) {
    for (size_t i = first; i < probes.size(); i += threads) probes[i] = {};
  };
  std::vector<std::thread> others;
  for (size_t first = 1; first < threads; ++first) others.emplace_back(take_out, first);
  if (!probes.empty()) take_out(0);
  for (std::thread& other : others) other.join();
}

}  // namespace profd
