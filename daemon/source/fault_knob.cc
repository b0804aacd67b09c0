#include "daemon/source/fault_knob.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// One page in so many, by level; 0: none.
constexpr std::array<uint32_t, 4> kFaultOneIn = {17, 67, 257, 0};

}  // namespace

void FaultKnob::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  faults_per_second_ = static_cast<double>(std::max<int64_t>(work.faults, 0)) / work.seconds;
  const uint64_t timed = work.cost.timed - last_.timed;
  const uint64_t walks = work.cost.walks - last_.walks;
  if (timed > 0) {
    Smooth(fault_ns_, work.trap_ns + static_cast<double>(work.cost.timed_ns - last_.timed_ns) /
                                         static_cast<double>(timed));
  } else if (fault_ns_ == 0) {
    fault_ns_ = work.trap_ns;
  }
  if (walks > 0) {
    Smooth(walk_ns_,
           static_cast<double>(work.cost.walk_ns - last_.walk_ns) / static_cast<double>(walks));
  }
  last_ = work.cost;
}

void FaultKnob::Forget(double seconds) { faults_per_second_ *= std::exp2(-seconds / 60); }

double FaultKnob::InPathNs(const profd_fault_cost& cost, double trap_ns) {
  const double each =
      cost.timed > 0 ? static_cast<double>(cost.timed_ns) / static_cast<double>(cost.timed) : 0;
  return static_cast<double>(cost.faults) * trap_ns +
         static_cast<double>(cost.faults - std::min(cost.walks, cost.faults)) * each +
         static_cast<double>(cost.walk_ns);
}

int FaultKnob::levels() const { return static_cast<int>(kFaultOneIn.size()); }

uint32_t FaultKnob::OneInAt(int level) const { return kFaultOneIn[static_cast<size_t>(level)]; }

double FaultKnob::CostAt(int level) const {
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return 0;
  return faults_per_second_ * (fault_ns_ + walk_ns_ / one_in) / kSecond;
}

std::string FaultKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return "who touches memory first (process sizes stay exact)";
  return absl::StrCat("one page in ", one_in, " is sampled instead of one in ", OneInAt(0));
}

}  // namespace profd
