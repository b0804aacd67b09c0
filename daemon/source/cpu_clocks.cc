#include "daemon/source/cpu_clocks.h"

#include <iterator>

namespace profd {
namespace {

// How long a clock keeps its period, and how long a period is: each is uniform within this part of
// its mean on both sides.
constexpr int64_t kKept = 1'000'000'000;
constexpr double kKeptSpread = 0.5;
constexpr double kPeriodSpread = 0.25;

}  // namespace

int64_t CpuClocks::Around(int64_t mean, double spread) {
  std::uniform_real_distribution<double> factor(1 - spread, 1 + spread);
  return static_cast<int64_t>(static_cast<double>(mean) * factor(random_));
}

absl::Status CpuClocks::SetInterval(int64_t interval_ns) {
  if (interval_ns == interval_ns_) return absl::OkStatus();
  interval_ns_ = interval_ns;
  return Draw();
}

absl::Status CpuClocks::Step() {
  return clock_->MonotonicNs() < next_ns_ ? absl::OkStatus() : Draw();
}

absl::Status CpuClocks::Draw() {
  if (interval_ns_ == 0) {
    next_ns_ = INT64_MAX;
    for (const uint32_t cpu : clocked_) (void)kernel_->SetCpuClock(cpu, 0);  // cannot fail
    clocked_.clear();
    return absl::OkStatus();
  }
  next_ns_ = clock_->MonotonicNs() + Around(kKept, kKeptSpread);
  ASSIGN_OR_RETURN(const std::vector<uint32_t> listed, kernel_->ClockedCpus());
  const std::set<uint32_t> online(listed.begin(), listed.end());
  // The clock of a CPU that was offline does not go on by itself.
  for (auto it = clocked_.begin(); it != clocked_.end();) {
    if (online.contains(*it)) {
      ++it;
      continue;
    }
    (void)kernel_->SetCpuClock(*it, 0);
    it = clocked_.erase(it);
  }
  absl::Status status;
  for (const uint32_t cpu : online) {
    const absl::Status set = kernel_->SetCpuClock(cpu, Around(interval_ns_, kPeriodSpread));
    if (set.ok()) clocked_.insert(cpu);
    // It went offline meanwhile: the next time says so.
    if (!absl::IsNotFound(set)) status.Update(set);
  }
  return status;
}

}  // namespace profd
