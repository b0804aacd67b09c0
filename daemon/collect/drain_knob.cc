#include "daemon/collect/drain_knob.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_format.h"

namespace profd {
namespace {

// Work of a drain, in units of one counter.
constexpr double kUnitsPerDrain = 1'000;
constexpr double kUnitsPerThread = 9;
constexpr double kUnitsPerResting = 3;
constexpr double kUnitsPerStack = 8;
constexpr int64_t kSecond = 1'000'000'000;
// The time constant of what drains cost now.
constexpr double kMeanSeconds = 10;
constexpr std::array<int64_t, 7> kSecondsBetween = {1, 2, 3, 4, 5, 7, 10};  // by level

}  // namespace

int64_t DrainKnob::Learn(const Work& work) {
  if (work.drains <= 0) return 0;
  const auto drains = static_cast<double>(work.drains);
  const double own = kUnitsPerDrain * drains + kUnitsPerThread * static_cast<double>(work.threads) +
                     kUnitsPerResting * static_cast<double>(work.resting);
  const double of_ticks =
      static_cast<double>(work.counters) + kUnitsPerStack * static_cast<double>(work.stacks);
  const auto cpu_ns = static_cast<double>(work.cpu_ns);
  const double own_ns = cpu_ns * own / (own + of_ticks);
  // Who is read only now and then does not tell of most drains, but who always is does.
  if (!work.whole || whole_) Smooth(drain_ns_, own_ns / drains);
  whole_ = work.whole;
  if (work.seconds > 0) {
    if (spent_ == 0) spent_ = CostAt(level());
    spent_ +=
        -std::expm1(-work.seconds / kMeanSeconds) * (own_ns / kSecond / work.seconds - spent_);
  }
  return static_cast<int64_t>(cpu_ns - own_ns);
}

int64_t DrainKnob::IntervalAt(int level) const {
  return kSecondsBetween[static_cast<size_t>(level)] * kSecond;
}

int DrainKnob::levels() const { return static_cast<int>(kSecondsBetween.size()); }

double DrainKnob::CostAt(int level) const {
  return drain_ns_ / static_cast<double>(IntervalAt(level));
}

std::string DrainKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  return absl::StrFormat("accounts are read every %d s, and when somebody asks for them",
                         IntervalAt(level) / kSecond);
}

}  // namespace profd
