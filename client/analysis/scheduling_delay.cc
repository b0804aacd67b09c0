#include "client/analysis/scheduling_delay.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace profctl {
namespace {

class Sums {
 public:
  explicit Sums(SchedulingDelay* delay) : delay_(delay) {}

  // `wakers`: how many there are above the link.
  void Add(const Link& link, int wakers) {
    if (link.next.empty()) {
      AddEnd(link, wakers);
      return;
    }
    const int below = wakers + (link.kind == LinkKind::kWaker ? 1 : 0);
    for (const Link& next : link.next) Add(next, below);
  }

  void Finish() {
    for (const auto& [wakers, delay] : inherited_) {
      delay_->inherited.push_back({.wakers = wakers, .delay = delay});
    }
    for (const auto& [place, delay] : queued_) {
      delay_->queued.push_back({.group = place.second, .wakers = place.first, .delay = delay});
    }
    std::stable_sort(delay_->queued.begin(), delay_->queued.end(),
                     [](const QueuedGroup& a, const QueuedGroup& b) {
                       return a.delay.time_ns > b.delay.time_ns;
                     });
  }

 private:
  void AddEnd(const Link& end, int wakers) {
    switch (end.kind) {
      case LinkKind::kRunQueue:
        AddDelay(end, wakers);
        return;
      case LinkKind::kOnCpu:
      case LinkKind::kInterrupt:
        delay_->rest_ns += end.time_ns;
        return;
      case LinkKind::kWait:
      case LinkKind::kWaker:
      case LinkKind::kOutside:
      case LinkKind::kUnknown:
      case LinkKind::kUnexplained:
      case LinkKind::kNotFollowed:
      case LinkKind::kSmall:
        delay_->unresolved_ns += end.time_ns;
        return;
    }
  }

  void AddDelay(const Link& end, int wakers) {
    const double error_ns = std::sqrt(end.variance);
    delay_->all.Add(end.time_ns, error_ns);
    if (wakers == 0) {
      delay_->own.Add(end.time_ns, error_ns);
      return;
    }
    inherited_[wakers].Add(end.time_ns, error_ns);
    queued_[{wakers, end.group}].Add(end.time_ns, error_ns);
  }

  SchedulingDelay* const delay_;
  std::map<int, Delay> inherited_;                    // by wakers
  std::map<std::pair<int, uint32_t>, Delay> queued_;  // by wakers and group
};

}  // namespace

SchedulingDelay FindSchedulingDelay(const Chains& chains) {
  SchedulingDelay delay;
  Sums sums(&delay);
  for (const Link& link : chains.links) sums.Add(link, 0);
  sums.Finish();
  return delay;
}

}  // namespace profctl
