#include "daemon/source/disk_knob.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// The stack of one request in so many is taken, by level; 0: no request is counted.
constexpr std::array<uint32_t, 5> kDiskStackOneIn = {1, 4, 16, 64, 0};
// Half-life of the assumed rate of requests while none are counted, in seconds.
constexpr double kDiskHalfLife = 60;

}  // namespace

void DiskKnob::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  if (!work.on) {
    requests_per_second_ *= std::exp2(-work.seconds / kDiskHalfLife);
    last_ = work.cost;
    return;
  }
  const uint64_t requests = work.cost.requests - last_.requests;
  const uint64_t walks = work.cost.walks - last_.walks;
  requests_per_second_ = static_cast<double>(requests) / work.seconds;
  if (requests > 0) {
    const uint64_t ns = work.cost.ns + work.cost.done_ns - last_.ns - last_.done_ns;
    Smooth(request_ns_, static_cast<double>(ns) / static_cast<double>(requests));
  }
  if (walks > 0) {
    Smooth(walk_ns_,
           static_cast<double>(work.cost.walk_ns - last_.walk_ns) / static_cast<double>(walks));
  }
  last_ = work.cost;
}

uint32_t DiskKnob::OneInAt(int level) const { return kDiskStackOneIn[static_cast<size_t>(level)]; }

uint64_t DiskKnob::InPathNs(const profd_disk_cost& cost) {
  return cost.ns + cost.walk_ns + cost.done_ns;
}

int DiskKnob::levels() const { return static_cast<int>(kDiskStackOneIn.size()); }

double DiskKnob::CostAt(int level) const {
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return 0;
  return requests_per_second_ * (request_ns_ + walk_ns_ / one_in) / kSecond;
}

std::string DiskKnob::GivenUpAt(int level) const {
  if (level == 0) return "";
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return "disk requests and file syncs";
  return absl::StrCat("one disk request or file sync in ", one_in, " has its stack");
}

}  // namespace profd
