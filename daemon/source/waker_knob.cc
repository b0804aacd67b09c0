#include "daemon/source/waker_knob.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// One wait in so many has its waker, by level; 0: none.
constexpr std::array<uint32_t, 4> kWakerOneIn = {1, 4, 16, 0};

}  // namespace

void WakerKnob::Learn(const Work& work) {
  const profd_waker_cost before = std::exchange(last_, work.cost);
  if (work.seconds <= 0) return;
  const auto switches = static_cast<double>(std::max<int64_t>(work.switches, 0));
  switches_per_second_ = switches / work.seconds;
  const uint32_t one_in = OneInAt(level());
  if (one_in == 0 || switches == 0 || work.cost.wakes == before.wakes) return;
  Smooth(entering_ns_, (EnteringNs(work.cost) - EnteringNs(before)) / switches);
  Smooth(walking_ns_, static_cast<double>(work.cost.walk_ns - before.walk_ns) * one_in / switches);
}

uint32_t WakerKnob::OneInAt(int level) const { return kWakerOneIn[static_cast<size_t>(level)]; }

double WakerKnob::EnteringNs(const profd_waker_cost& cost) const {
  const double mean =
      cost.timed == 0 ? 0 : static_cast<double>(cost.timed_ns) / static_cast<double>(cost.timed);
  return static_cast<double>(cost.wakes) * (entry_ns_ + mean);
}

double WakerKnob::InPathNs(const profd_waker_cost& cost) const {
  return EnteringNs(cost) + static_cast<double>(cost.walk_ns);
}

int WakerKnob::levels() const { return static_cast<int>(kWakerOneIn.size()); }

double WakerKnob::CostAt(int level) const {
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return 0;
  return switches_per_second_ * (entering_ns_ + walking_ns_ / one_in) / kSecond;
}

std::string WakerKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return "who ended waits (the waits themselves stay known)";
  return absl::StrCat("the waker of one wait in ", one_in);
}

}  // namespace profd
