#include "daemon/govern/budget.h"

#include <algorithm>
#include <cmath>

namespace profd {
namespace {

constexpr double kNs = 1e9;
// CPU use is averaged over a minute, and at most the budget of a minute is saved.
constexpr int64_t kMinuteNs = 60'000'000'000;
constexpr double kMinute = 60;
// Costs without a knob take at most this share of the rate, so that queries cannot switch off the
// sources that they ask about.
constexpr double kMostFixed = 0.5;

}  // namespace

void Purse::SetRate() {
  allowance_.rate = budget_.share;
  if (!budget_.of_targets || budget_.share == kNoBudget) return;
  int64_t cpu = 0, length = 0;
  for (const Use& use : uses_) {
    cpu += use.cpu_ns;
    length += use.length_ns;
  }
  // A target that started a second ago is judged by that second.
  if (length > 0) {
    allowance_.rate *= std::max(1.0, static_cast<double>(cpu) / static_cast<double>(length));
  }
}

void Purse::Begin(const Sums& sums) {
  last_ = sums;
  if (begun_) return;
  begun_ = true;
  SetRate();
  if (allowance_.rate != kNoBudget) allowance_.saved = kMinute * allowance_.rate;
}

const Allowance& Purse::Add(const Sums& sums) {
  const int64_t length = sums.now_ns - last_.now_ns;
  if (length <= 0) return allowance_;
  const double seconds = static_cast<double>(length) / kNs;
  const double spent = static_cast<double>(sums.spent - last_.spent) / kNs;
  const double fixed = static_cast<double>(sums.fixed - last_.fixed) / kNs;
  uses_.push_back({.end_ns = sums.now_ns,
                   .length_ns = length,
                   .cpu_ns = std::max<int64_t>(0, sums.targets_cpu - last_.targets_cpu)});
  while (uses_.front().end_ns <= sums.now_ns - kMinuteNs) uses_.pop_front();
  last_ = sums;
  SetRate();
  if (allowance_.rate == kNoBudget) return allowance_;
  allowance_.saved = std::clamp(allowance_.saved + allowance_.rate * seconds - spent, 0.0,
                                kMinute * allowance_.rate);
  const double part = -std::expm1(-seconds / kMinute);
  allowance_.fixed += part * (fixed / seconds - allowance_.fixed);
  allowance_.fixed = std::clamp(allowance_.fixed, 0.0, kMostFixed * allowance_.rate);
  return allowance_;
}

}  // namespace profd
