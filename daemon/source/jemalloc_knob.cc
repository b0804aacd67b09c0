#include "daemon/source/jemalloc_knob.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "daemon/source/probe_cost.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// While reported objects or slow paths are off, their rate is unknown. It is assumed to decay by
// this factor per second, so that they are tried again.
constexpr double kToldMemory = 0.97;
// Probes at allocation events are attached for one part in so many of the time, by level. At the
// last level that is just long enough to find the totals of new processes. Probes in slow paths are
// attached at level 0 only, those at reported objects at all levels but the last.
constexpr std::array<uint32_t, 8> kHeapSlices = {1, 1, 4, 8, 16, 32, 64, 512};
// Shares of the budget: above kStackShare fewer stacks are taken, below kStackComfort more, after
// kStackCalm seconds.
constexpr double kStackShare = 0.15;
constexpr double kStackComfort = 0.1;
constexpr double kStackCalm = 10;
constexpr uint32_t kMostLeftOut = 64;

}  // namespace

void JemallocKnob::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  const uint64_t events = (work.cost.events - last_.events) - (work.cost.closed - last_.closed);
  const uint64_t walks = work.cost.walks - last_.walks;
  const double trap_ns = TrapNs(work.cost, last_, work.traps);
  if (work.events > 0) {
    Smooth(bytes_per_event_,
           static_cast<double>(work.seen_bytes) / static_cast<double>(work.events));
  }
  // The allocators' counters show how many events there were, including those not seen.
  events_per_second_ = bytes_per_event_ > 0 ? std::max(0.0, static_cast<double>(work.bytes)) /
                                                  bytes_per_event_ / work.seconds
                                            : 0;
  if (ToldAt(level())) {
    told_per_second_ = static_cast<double>(work.told) / work.seconds;
  } else {
    told_per_second_ *= std::pow(kToldMemory, work.seconds);
  }
  if (SlowPathsAt(level())) {
    const double others = static_cast<double>(work.events) + static_cast<double>(work.told);
    slow_per_second_ = std::max(0.0, static_cast<double>(events) - others) / work.seconds;
  } else {
    slow_per_second_ *= std::pow(kToldMemory, work.seconds);
  }
  if (events > walks) {
    Smooth(event_ns_, trap_ns + static_cast<double>(work.cost.ns - last_.ns) /
                                    static_cast<double>(events - walks));
  } else if (event_ns_ == 0) {
    event_ns_ = trap_ns;
  }
  if (walks > 0) {
    const double whole = trap_ns + static_cast<double>(work.cost.walk_ns - last_.walk_ns) /
                                       static_cast<double>(walks);
    Smooth(walk_ns_, std::max(0.0, whole - event_ns_));
  }
  last_ = work.cost;
  ThinOut(work.allowance, work.seconds);
}

void JemallocKnob::ThinOut(const Allowance& allowance, double seconds) {
  const auto cost_at = [this](uint32_t one_in) {
    return events_per_second_ * ShareAt(level()) * walk_ns_ / one_in / kSecond;
  };
  // Savings pay for bursts of load.
  const double most = kStackShare * allowance.NextSecond();
  while (one_in_ < kMostLeftOut && cost_at(one_in_) > most) one_in_ *= 2;
  const bool calm = one_in_ > 1 && cost_at(one_in_ / 2) < kStackComfort * allowance.rate;
  calm_seconds_ = calm ? calm_seconds_ + seconds : 0;
  if (calm_seconds_ < kStackCalm) return;
  one_in_ /= 2;
  calm_seconds_ = 0;
}

int JemallocKnob::levels() const { return static_cast<int>(kHeapSlices.size()); }

double JemallocKnob::ShareAt(int level) const {
  return 1.0 / kHeapSlices[static_cast<size_t>(level)];
}

double JemallocKnob::CostAt(int level) const {
  const double told = ToldAt(level) ? told_per_second_ * (event_ns_ + walk_ns_) : 0;
  const double slow = SlowPathsAt(level) ? slow_per_second_ * event_ns_ : 0;
  return (events_per_second_ * ShareAt(level) * (event_ns_ + walk_ns_ / one_in_) + told + slow) /
         kSecond;
}

std::string JemallocKnob::GivenUpAt(int level) const {
  const uint32_t slices = kHeapSlices[static_cast<size_t>(level)];
  if (slices > 1) {
    return absl::StrCat("allocation stacks are taken during 1/", slices, " of the time",
                        ToldAt(level) ? "" : "; objects that programs report are ignored");
  }
  if (!SlowPathsAt(level)) {
    return "probes in allocators' slow paths, which catch events that other probes miss";
  }
  return "";
}

}  // namespace profd
