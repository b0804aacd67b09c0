#include "daemon/source/tick_schedule.h"

namespace profd {
namespace {

// A tick may be late by an interval over this.
constexpr int64_t kLittleLate = 2;

}  // namespace

TickSchedule::TickSchedule(int64_t interval_ns, int64_t origin_ns, uint64_t seed)
    : interval_ns_(interval_ns),
      next_interval_ns_(interval_ns),
      stratum_ns_(origin_ns),
      random_(seed) {
  Choose();
}

void TickSchedule::Choose() {
  std::uniform_int_distribution<int64_t> within(0, interval_ns_ - 1);
  next_ns_ = stratum_ns_ + within(random_);
}

void TickSchedule::Advance(int64_t now_ns) {
  stratum_ns_ += interval_ns_;
  BeginStratum(now_ns);
}

void TickSchedule::Cut(int64_t at_ns, int64_t now_ns) {
  if (at_ns > end_ns()) missed_ += (at_ns - end_ns()) / interval_ns_;
  stratum_ns_ = at_ns;
  BeginStratum(now_ns);
}

void TickSchedule::Resume(int64_t now_ns) {
  stratum_ns_ = now_ns;
  BeginStratum(now_ns);
}

void TickSchedule::BeginStratum(int64_t now_ns) {
  interval_ns_ = next_interval_ns_;
  const int64_t behind = (now_ns - stratum_ns_) / interval_ns_;
  if (behind > 0) {
    missed_ += behind;
    stratum_ns_ += behind * interval_ns_;
  }
  Choose();
  if (next_ns_ >= now_ns) return;
  if (now_ns - next_ns_ <= interval_ns_ / kLittleLate) {
    next_ns_ = now_ns;
    return;
  }
  ++missed_;
  stratum_ns_ += interval_ns_;
  Choose();
}

}  // namespace profd
