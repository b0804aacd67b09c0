#include "daemon/source/long_wait.h"

#include <algorithm>
#include <utility>

#include "daemon/source/record.h"

namespace profd {
namespace {

constexpr int64_t kLeastWorkNs = 20'000'000;
constexpr int64_t kLeastRestNs = 100'000'000;
constexpr int64_t kMostLeastNs = 64'000'000'000;
// Told in a second.
constexpr double kTooMany = 512;
constexpr double kFew = 128;

}  // namespace

void LongWaitThreshold::Learn(int64_t told, int64_t length_ns) {
  if (length_ns <= 0) return;
  const double rate = static_cast<double>(told) * 1e9 / static_cast<double>(length_ns);
  if (rate > kTooMany) {
    ns_ = std::min(ns_ * 2, kMostLeastNs);
  } else if (rate < kFew) {
    ns_ = std::max(ns_ / 2, least_ns_);
  }
}

LongWaitSource::LongWaitSource(const SourceContext& context, Sampler* sampler)
    : context_(context),
      sampler_(sampler),
      thresholds_{LongWaitThreshold(kLeastWorkNs), LongWaitThreshold(kLeastRestNs)} {}

LongWaitLeast LongWaitSource::Least() const {
  LongWaitLeast least{};
  for (size_t i = 0; i < least.size(); i++) least[i] = thresholds_[i].ns();
  return least;
}

absl::Status LongWaitSource::Apply() {
  context_.kernel->SetLongWaits(Least());
  if (sampler_ != nullptr) sampler_->SetLongWaits(Least());
  return absl::OkStatus();
}

absl::Status LongWaitSource::OnRecord(uint32_t /*type*/, std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const auto record, DecodeRecord<profd_long_wait_record>(bytes));
  const Reason reason =
      record.reason < kReasonCount ? static_cast<Reason>(record.reason) : Reason::kOther;
  waits_.push_back({.key = {.thread = ThreadId{record.thread_id},
                            .stack = StackId{record.stack},
                            .argument = record.arg0,
                            .syscall = record.sysno,
                            .reason = reason,
                            .kind = Kind::kWait},
                    .begin_ns = static_cast<int64_t>(record.begin),
                    .duration_ns = std::max<int64_t>(0, static_cast<int64_t>(record.duration)),
                    .earlier = record.earlier != 0,
                    .waker = StackId{record.waker}});
  return absl::OkStatus();
}

absl::Status LongWaitSource::Drain(ProfileDelta& delta) {
  const LongWaitLeast least = Least();
  if (delta.switch_on || delta.tick_on) {
    delta.long_rest_ns = least[PROFD_LONG_WAIT_REST];
    delta.long_work_ns = least[PROFD_LONG_WAIT_WORK];
  }
  delta.long_waits = std::exchange(waits_, {});
  if (sampler_ != nullptr) {
    delta.losses[PROFD_LOSS_LONG_WAIT] += sampler_->TakeLongWaits(delta.long_waits);
  }
  std::array<int64_t, PROFD_LONG_WAIT_CLASSES> told{};
  for (const LongWait& wait : delta.long_waits) {
    told[PROFD_LONG_WAIT_CLASS(static_cast<uint32_t>(wait.key.reason))] += wait.lasts ? 0 : 1;
  }
  for (size_t i = 0; i < told.size(); i++) {
    thresholds_[i].Learn(told[i], delta.end_ns - delta.begin_ns);
  }
  return Least() == least ? absl::OkStatus() : Apply();
}

}  // namespace profd
