#include "daemon/kernel/epoch.h"

#include <bpf/libbpf.h>

#include <atomic>
#include <ctime>

#include "daemon/kernel/tables.h"

namespace profd {
namespace {

// How long it waits for all programs together. They take some µs, but a virtual machine's CPU may
// stand still in the middle of one.
constexpr int kShortNaps = 100;
constexpr int kNaps = kShortNaps + 100;

void Nap(int number) {
  const timespec nap{.tv_sec = 0, .tv_nsec = number <= kShortNaps ? 50'000 : 1'000'000};
  nanosleep(&nap, nullptr);
}

}  // namespace

std::optional<uint32_t> ChangeEpoch(uint32_t& live, std::span<const uint32_t> counting) {
  const uint32_t before = live;
  std::atomic_ref(live).exchange(1 - before);
  int naps = 0;
  for (const uint32_t& one : counting) {
    const auto& busy = *static_cast<const volatile uint32_t*>(&one);
    while (busy != 0) {
      if (++naps > kNaps) return std::nullopt;
      Nap(naps);
    }
  }
  return before;
}

absl::StatusOr<std::vector<CounterEntry>> DrainEpoch(const bpf_map* even, const bpf_map* odd,
                                                     uint32_t& live,
                                                     std::span<const uint32_t> counting) {
  const std::optional<uint32_t> before = ChangeEpoch(live, counting);
  if (!before) return std::vector<CounterEntry>();
  return EmptyCounters(bpf_map__fd(*before == 0 ? even : odd));
}

}  // namespace profd
