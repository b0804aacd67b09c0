#include "daemon/source/switch_stack_knob.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// Stacks a second on each CPU, by level; 0: none. Half of what the program takes before it takes
// fewer by itself: CPUs are not equally busy, and the rate may double from one second to the next.
constexpr std::array<uint32_t, 4> kStacks = {PROFD_SWITCH_STACKS / 2, PROFD_SWITCH_STACKS / 8,
                                             PROFD_SWITCH_STACKS / 32, 0};
constexpr double kMostOneIn = 1 << PROFD_SWITCH_STACK_SHIFT;
// Until a stack was timed.
constexpr double kFirstGuessNs = 5'000;

}  // namespace

void SwitchStackKnob::Learn(const Work& work) {
  const profd_switch_stack_cost before = std::exchange(last_, work.cost);
  if (work.seconds <= 0) return;
  switches_per_second_ = static_cast<double>(std::max<int64_t>(work.switches, 0)) / work.seconds;
  const uint64_t samples = work.cost.samples - before.samples;
  if (samples > 0) {
    Smooth(stack_ns_, static_cast<double>(work.cost.ns - before.ns) / static_cast<double>(samples));
  } else if (stack_ns_ == 0) {
    stack_ns_ = kFirstGuessNs;
  }
}

uint32_t SwitchStackKnob::OneInAt(int level) const {
  const uint32_t stacks = kStacks[static_cast<size_t>(level)];
  if (stacks == 0) return 0;
  const double one_in =
      switches_per_second_ / (static_cast<double>(stacks) * static_cast<double>(cpus_));
  return std::bit_ceil(static_cast<uint32_t>(std::clamp(one_in, 1.0, kMostOneIn)));
}

int SwitchStackKnob::levels() const { return static_cast<int>(kStacks.size()); }

double SwitchStackKnob::CostAt(int level) const {
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return 0;
  return switches_per_second_ * stack_ns_ / one_in / kSecond;
}

std::string SwitchStackKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  const uint32_t stacks = kStacks[static_cast<size_t>(level)];
  if (stacks == 0) return "stacks of context switches (their number stays exact)";
  return absl::StrCat(stacks, " stacks of context switches a second on each CPU instead of ",
                      kStacks[0]);
}

}  // namespace profd
