#include "daemon/source/cpu_knob.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// One sample in so many is taken, by level; 0: none.
constexpr std::array<int64_t, 5> kCpuOneIn = {1, 2, 4, 10, 0};
// Until a sample was timed. A walk takes some µs.
constexpr double kFirstGuessNs = 5'000;

}  // namespace

void CpuKnob::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  cpu_share_ = static_cast<double>(std::max<int64_t>(work.cpu_ns, 0)) / (work.seconds * kSecond);
  const uint64_t samples = work.cost.samples - last_.samples;
  if (samples > 0) {
    Smooth(sample_ns_, work.interrupt_ns + static_cast<double>(work.cost.ns - last_.ns) /
                                               static_cast<double>(samples));
  } else if (sample_ns_ == 0) {
    sample_ns_ = work.interrupt_ns + kFirstGuessNs;
  }
  last_ = work.cost;
}

int64_t CpuKnob::IntervalAt(int level) const {
  return interval_ns_ * kCpuOneIn[static_cast<size_t>(level)];
}

double CpuKnob::InPathNs(const profd_cpu_cost& cost, double interrupt_ns) {
  return static_cast<double>(cost.samples) * interrupt_ns + static_cast<double>(cost.ns);
}

int CpuKnob::levels() const { return static_cast<int>(kCpuOneIn.size()); }

double CpuKnob::CostAt(int level) const {
  const int64_t interval = IntervalAt(level);
  return interval == 0 ? 0 : cpu_share_ * sample_ns_ / static_cast<double>(interval);
}

std::string CpuKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  const int64_t interval = IntervalAt(level);
  if (interval == 0) return "stacks of code that runs (time on CPU stays exact)";
  return absl::StrFormat("a sample each %.3g ms of CPU time instead of %.3g ms",
                         static_cast<double>(interval) / 1e6,
                         static_cast<double>(interval_ns_) / 1e6);
}

}  // namespace profd
