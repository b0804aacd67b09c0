#include "daemon/source/switch_knob.h"

#include <algorithm>

namespace profd {
namespace {

constexpr double kSecond = 1e9;

}  // namespace

void SwitchKnob::Learn(double seconds, int64_t switches, const profd_switch_cost& cost) {
  if (seconds <= 0) return;
  switches_per_second_ = static_cast<double>(std::max<int64_t>(switches, 0)) / seconds;
  const uint64_t timed = cost.timed - last_.timed;
  if (timed == 0) return;
  const double mean =
      static_cast<double>(cost.timed_ns - last_.timed_ns) / static_cast<double>(timed);
  last_ = cost;
  Smooth(ns_per_switch_, entry_ns_ + mean);
}

double SwitchKnob::InPathNs(const profd_switch_cost& cost) const {
  return PROFD_COST_SAMPLE *
         (static_cast<double>(cost.timed_ns) + static_cast<double>(cost.timed) * entry_ns_);
}

double SwitchKnob::CostAt(int level) const {
  return level == 0 ? switches_per_second_ * ns_per_switch_ / kSecond : 0;
}

std::string SwitchKnob::GivenUpAt(int level) const {
  return level == 0 ? "" : "exact time by reason (now estimated from ticks)";
}

}  // namespace profd
