#include "daemon/source/wait_knob.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// Work of the tick in units of one visit to a thread that still waits. Only the ratios are fixed;
// what a unit costs is measured all the time.
constexpr double kUnitsPerTick = 200;  // waking up, starting the program, reading the ring
constexpr double kUnitsPerWalk = 30;
constexpr uint32_t kIdleStride = 16;
// Factors of the interval at the levels from 2 on, up to kLongestInterval.
constexpr std::array<double, 14> kFactors = {1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 100};
constexpr int64_t kLongestInterval = 1'000'000'000;
// So many of them are asked for before other sources are given up: up to 4 times the interval.
constexpr int kSampledFactors = 4;
// What a tick costs grows with the interval by this power: caches are cold and the CPU sleeps
// deeper. Measured from 10 to 120 ms (docs/governor-details.md).
constexpr double kColder = 0.3;

}  // namespace

void WaitKnob::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  drain_share_ = static_cast<double>(work.drain_cpu_ns) / (work.seconds * kSecond);
  measured_interval_ns_ = IntervalAt(level());
  if (work.ticks <= 0) return;
  const auto ticks = static_cast<double>(work.ticks);
  const auto walks = static_cast<double>(work.walks);
  unit_ns_ = static_cast<double>(work.tick_cpu_ns) /
             (kUnitsPerTick * ticks + kUnitsPerWalk * walks + static_cast<double>(work.repeats));
  walks_per_tick_ = walks / ticks;
  idle_threads_ = static_cast<double>(work.idle_ticks) / ticks;
}

int WaitKnob::sampled_levels() const { return 2 + kSampledFactors; }

int WaitKnob::levels() const { return 2 + static_cast<int>(kFactors.size()); }

int64_t WaitKnob::IntervalAt(int level) const {
  if (level < 2) return base_interval_ns_;
  const size_t step = std::min(static_cast<size_t>(level) - 2, kFactors.size() - 1);
  const double factor = kFactors[step];
  const auto longest = std::max(base_interval_ns_, kLongestInterval);
  return std::min(static_cast<int64_t>(static_cast<double>(base_interval_ns_) * factor), longest);
}

uint32_t WaitKnob::StrideAt(int level) const { return by_list_ && level > 0 ? kIdleStride : 1; }

double WaitKnob::CostAt(int level) const {
  const double units = kUnitsPerTick + kUnitsPerWalk * walks_per_tick_ +
                       idle_threads_ / static_cast<double>(StrideAt(level));
  const auto interval = static_cast<double>(IntervalAt(level));
  const double longer =
      measured_interval_ns_ > 0 ? interval / static_cast<double>(measured_interval_ns_) : 1;
  return drain_share_ / longer + unit_ns_ * std::pow(longer, kColder) * units / interval;
}

std::string WaitKnob::GivenUpAt(int level) const {
  std::vector<std::string> parts;
  if (StrideAt(level) > 1) {
    parts.push_back(
        absl::StrCat("threads that only wait are visited at one tick in ", kIdleStride));
  }
  if (IntervalAt(level) != base_interval_ns_) {
    parts.push_back(absl::StrFormat("sampling interval %g ms instead of %g ms",
                                    static_cast<double>(IntervalAt(level)) / 1e6,
                                    static_cast<double>(base_interval_ns_) / 1e6));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace profd
