#include "daemon/source/mapping_knob.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "daemon/source/probe_cost.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// One mapping call in so many, by level; 0: none.
constexpr std::array<uint32_t, 5> kMapOneIn = {1, 4, 16, 64, 0};
// Half-life of the assumed rate of calls while no probe is attached, in seconds.
constexpr double kMapHalfLife = 60;

}  // namespace

void MappingKnob::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  if (!work.on) {
    calls_per_second_ *= std::exp2(-work.seconds / kMapHalfLife);
    last_ = work.cost;
    return;
  }
  const uint64_t calls = work.cost.events - last_.events;
  const uint64_t walks = work.cost.walks - last_.walks;
  const double trap_ns = TrapNs(work.cost, last_, work.traps);
  calls_per_second_ = static_cast<double>(calls) / work.seconds;
  if (calls > 0) {
    const double all = static_cast<double>(walks) * std::max<uint32_t>(OneInAt(level()), 1);
    Smooth(walks_per_call_, std::min(1.0, all / static_cast<double>(calls)));
  }
  if (calls > walks) {
    Smooth(call_ns_, trap_ns + static_cast<double>(work.cost.ns - last_.ns) /
                                   static_cast<double>(calls - walks));
  } else if (call_ns_ == 0) {
    call_ns_ = trap_ns;
  }
  if (walks > 0) {
    const double whole = trap_ns + static_cast<double>(work.cost.walk_ns - last_.walk_ns) /
                                       static_cast<double>(walks);
    Smooth(walk_ns_, std::max(0.0, whole - call_ns_));
  }
  last_ = work.cost;
}

int MappingKnob::levels() const { return static_cast<int>(kMapOneIn.size()); }

uint32_t MappingKnob::OneInAt(int level) const { return kMapOneIn[static_cast<size_t>(level)]; }

double MappingKnob::CostAt(int level) const {
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return 0;
  return calls_per_second_ * (call_ns_ + walks_per_call_ * walk_ns_ / one_in) / kSecond;
}

std::string MappingKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return "who maps and unmaps memory";
  return absl::StrCat("one mapping call in ", one_in, " is counted");
}

}  // namespace profd
