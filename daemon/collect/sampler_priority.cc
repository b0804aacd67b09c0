#include "daemon/collect/sampler_priority.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/base/log.h"
#include "daemon/base/priority.h"

namespace profd {
namespace {

// A longer tick would be noticed by the thread whose CPU it takes.
constexpr int64_t kLongestNs = 1'000'000;
// So would be more than this part of a CPU.
constexpr int64_t kLargestPart = 10;
// The first ticks of new threads walk all of their stacks and are long. A real-time priority comes
// after so many short ticks in a row, and after so long.
constexpr int kShortTicks = 10;
constexpr int64_t kShortNs = 1'000'000'000;
// For a thread of normal priority. By default the kernel may let it wake up 50 us late, together
// with timers of others.
constexpr unsigned long kTimerSlackNs = 1;

}  // namespace

bool SamplerPriority::IsShort(int64_t cpu_ns, int64_t interval_ns, bool was_short) {
  const int64_t longest = std::min(kLongestNs, interval_ns / kLargestPart);
  return cpu_ns <= (was_short ? longest : longest / 2);
}

void SamplerPriority::Begin() {
  RaisePriority(kSamplerNice, "ticks");
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
}

void SamplerPriority::Adapt(int64_t cpu_ns, int64_t interval_ns) {
  if (!IsShort(cpu_ns, interval_ns, real_time_)) {
    short_ticks_ = 0;
    short_ns_ = 0;
    if (real_time_) SetRealTime(false);
  } else if (!real_time_) {
    ++short_ticks_;
    short_ns_ += interval_ns;
    if (short_ticks_ >= kShortTicks && short_ns_ >= kShortNs) SetRealTime(true);
  }
}

// The nice value stays: it is in force again with the normal policy.
void SamplerPriority::SetRealTime(bool on) {
  if (!permitted_) return;
  const sched_param priority = {.sched_priority = on ? kRealTimePriority : 0};
  const int policy = on ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER;
  if (sched_setscheduler(0, policy, &priority) == 0) {
    real_time_ = on;
    return;
  }
  permitted_ = false;
  LogInfo("ticks may come late on a busy machine: no real-time priority (", std::strerror(errno),
          ")");
}

}  // namespace profd
