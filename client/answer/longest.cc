#include "client/answer/longest.h"

#include <algorithm>
#include <utility>

#include "daemon/base/status.h"

namespace profctl {
namespace {

// So that the sum of two is a time.
constexpr int64_t kMostNs = int64_t{1} << 61;

bool IsTime(int64_t ns) { return ns >= 0 && ns <= kMostNs; }

}  // namespace

absl::StatusOr<std::vector<LongWait>> ReadLongest(const Profile& profile) {
  std::vector<LongWait> waits;
  const profd::v1::Profile& message = *profile.message;
  for (const profd::v1::LongWait& sent : message.longest().waits()) {
    LongWait& wait = waits.emplace_back();
    if (sent.thread() >= profile.threads.size() || sent.stack() >= profile.stacks.size() ||
        sent.woken_stack() >= profile.stacks.size() ||
        sent.waker() >= static_cast<uint32_t>(message.strings_size())) {
      return DamagedAnswer("a long wait refers to something unknown");
    }
    if (!IsTime(sent.begin_ns()) || !IsTime(sent.duration_ns()) || !IsTime(sent.doubt_ns())) {
      return DamagedAnswer("impossible times");
    }
    wait.thread = sent.thread();
    if (sent.stack() != 0) wait.stack = sent.stack();
    wait.wait = sent;
    wait.waker = message.strings(static_cast<int>(sent.waker()));
    ASSIGN_OR_RETURN(wait.attributes, ReadAttributes(message, sent.attributes()));
  }
  return waits;
}

}  // namespace profctl
