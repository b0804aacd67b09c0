#include "daemon/collect/drain_requests.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace profd {

absl::Status DrainRequests::Await(int64_t instant_ns, int64_t deadline_ns,
                                  absl::FunctionRef<void()> wake) {
  return AwaitWanted({.instant_ns = std::min(instant_ns, MonotonicNs()), .drain = 0}, deadline_ns,
                     wake);
}

absl::Status DrainRequests::AwaitNext(int64_t deadline_ns, absl::FunctionRef<void()> wake) {
  Wanted wanted;
  {
    const absl::MutexLock lock(&mutex_);
    wanted.drain = begun_ + 1;
  }
  return AwaitWanted(wanted, deadline_ns, wake);
}

absl::Status DrainRequests::AwaitWanted(const Wanted& wanted, int64_t deadline_ns,
                                        absl::FunctionRef<void()> wake) {
  {
    const absl::MutexLock lock(&mutex_);
    if (IsMet(wanted)) return absl::OkStatus();
    if (stopping_) return absl::UnavailableError("the collector is stopping");
    most_.instant_ns = std::max(most_.instant_ns, wanted.instant_ns);
    most_.drain = std::max(most_.drain, wanted.drain);
  }
  wake();
  const auto answered = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || IsMet(wanted);
  };
  const absl::MutexLock lock(&mutex_);
  const absl::Duration patience =
      absl::Nanoseconds(std::max<int64_t>(0, deadline_ns - MonotonicNs()));
  if (!mutex_.AwaitWithTimeout(absl::Condition(&answered), patience)) {
    return absl::DeadlineExceededError("the collector did not drain in time");
  }
  if (!IsMet(wanted)) return absl::UnavailableError("the collector is stopping");
  return status_;
}

bool DrainRequests::IsWanted() {
  const absl::MutexLock lock(&mutex_);
  begun_ = done_ + 1;
  return !IsMet(most_);
}

void DrainRequests::Done(int64_t reached_ns, absl::Status status) {
  const absl::MutexLock lock(&mutex_);
  done_ = begun_;
  reached_ns_ = reached_ns;
  status_ = std::move(status);
}

void DrainRequests::Stop() {
  const absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

}  // namespace profd
