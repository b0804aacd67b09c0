#include "daemon/service/profile_stream.h"

namespace profd {

bool ProfileStream::Send(const v1::Profile& part) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = true;
  }
  StartWrite(&part);
  const auto written = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !writing_; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&written));
  return ok_;
}

void ProfileStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  ok_ = ok;
}

}  // namespace profd
