#include "daemon/source/malloc_knob.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// Divisor of the length and factor of the interval, by level; 0 intervals: no bursts.
struct BurstLevel {
  int64_t part;
  int64_t intervals;
};
constexpr std::array<BurstLevel, 6> kBurstLevels = {
    {{1, 1}, {2, 1}, {4, 1}, {10, 1}, {10, 4}, {1, 0}}};
// Half-life of the assumed cost while there are no bursts.
constexpr double kBurstHalfLife = 120;

}  // namespace

void MallocKnob::Learn(std::span<const BurstResult> bursts, const profd_malloc_cost& cost,
                       const Traps& traps) {
  double standing_ns = 0, margin_ns = 0;
  for (const BurstResult& burst : bursts) {
    standing_ns += static_cast<double>(burst.standing_ns);
    margin_ns += static_cast<double>(std::max<int64_t>(0, burst.standing_ns - burst.length_ns));
  }
  if (standing_ns <= 0) return;
  const double in_path_ns = InPathNs(cost, traps);
  const double spent_ns = std::max(0.0, in_path_ns - last_in_path_ns_);
  last_in_path_ns_ = in_path_ns;
  Smooth(load_, spent_ns / standing_ns);
  Smooth(margin_ns_, margin_ns / static_cast<double>(bursts.size()));
}

void MallocKnob::PassWithout(double seconds) { load_ *= std::exp2(-seconds / kBurstHalfLife); }

double MallocKnob::InPathNs(const profd_malloc_cost& cost, const Traps& traps) {
  return static_cast<double>(cost.ns) + traps.Of(cost.calls, cost.stepped);
}

int MallocKnob::levels() const { return static_cast<int>(kBurstLevels.size()); }

BurstPlan MallocKnob::PlanAt(int level) const {
  const auto [part, intervals] = kBurstLevels[static_cast<size_t>(level)];
  return {.length_ns = whole_.length_ns / part, .interval_ns = whole_.interval_ns * intervals};
}

double MallocKnob::CostAt(int level) const {
  const BurstPlan plan = PlanAt(level);
  if (plan.interval_ns <= 0) return 0;
  return load_ * (static_cast<double>(plan.length_ns) + margin_ns_) /
         static_cast<double>(plan.interval_ns);
}

std::string MallocKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  const BurstPlan plan = PlanAt(level);
  if (plan.interval_ns <= 0) return "allocations and frees of glibc's malloc";
  return absl::StrFormat(
      "glibc's malloc is traced for %g ms every %g s instead of %g ms every %g s",
      static_cast<double>(plan.length_ns) / 1e6, static_cast<double>(plan.interval_ns) / kSecond,
      static_cast<double>(whole_.length_ns) / 1e6,
      static_cast<double>(whole_.interval_ns) / kSecond);
}

}  // namespace profd
