#include "daemon/profile/ended_waits.h"

#include <algorithm>
#include <cmath>

#include "daemon/profile/durations.h"

namespace profd {
namespace {

constexpr double kOne = PROFD_ENDED_ONE;
constexpr double kMostCounted = 1e16;  // of a bucket: sums are no overflow
// Only some waits were taken if those that were stand for this many times more than they would if
// all were. The true factor is then 2 or more. Otherwise the width of buckets alone makes it 1.25
// at most.
constexpr double kChosen = 1.5;

// The duration that the waits of a bucket are taken to have, ns.
double DurationOf(uint32_t bucket) {
  const auto begin = static_cast<double>(DurationBucketBegin(bucket));
  const auto end = static_cast<double>(DurationBucketBegin(size_t{bucket} + 1));
  return bucket == 0 ? end : 2 * begin * end / (begin + end);
}

// Adds the rows of one thread that `counts` says.
template <typename Predicate>
void AddRows(std::span<const EndedRow* const> rows, const EndedThread& thread, Predicate counts,
             WaitEstimate* sum) {
  double waits = 0;
  for (const EndedRow* row : rows) waits += counts(*row) ? row->waits : 0;
  if (waits <= 0 || thread.time_ns <= 0) return;
  const double rate = waits / thread.time_ns;
  double variance = rate * rate * thread.time_variance;
  double of_choice = 0;
  for (const EndedRow* row : rows) {
    if (!counts(*row)) continue;
    const double of_ticks = row->variance - row->of_choice;
    variance += of_ticks * (1 - 2 * rate * DurationOf(row->bucket));
    of_choice += row->of_choice;
  }
  sum->value += waits;
  sum->variance += std::max(variance, 0.0) + of_choice;
}

}  // namespace

EndedThread EstimateEnded(const EstimatedThread& waits, std::span<const Sample> samples,
                          int64_t tick_interval_ns) {
  EndedThread thread;
  double weight = 0, ticks = 0;
  for (const EstimatedSample& s : waits.samples) {
    if (s.key.reason != Reason::kLock) continue;
    thread.time_ns += static_cast<double>(s.amount);
    weight += static_cast<double>(s.weight);
    ticks += static_cast<double>(s.ticks);
  }
  if (thread.time_ns <= 0 || weight <= 0) return {};
  const double scale = thread.time_ns / weight;
  // What a tick stands for, on average: more than the interval where it visits one thread in
  // several.
  const double of_tick = ticks > 0 ? weight / ticks : static_cast<double>(tick_interval_ns);
  double all_squares = 0, expected_squares = 0;
  for (const Sample& s : samples) {
    if (s.key.kind != Kind::kEnded || s.key.reason != Reason::kLock || s.weight <= 0) continue;
    EndedRow& row = thread.rows.emplace_back();
    row.wait = s.key;
    row.wait.kind = Kind::kWait;
    row.wait.syscall = PROFD_ENDED_SYSNO(s.key.syscall);
    row.bucket = std::min<uint32_t>(PROFD_ENDED_BUCKET(s.key.syscall), PROFD_DURATION_BUCKETS - 1);
    row.end = PROFD_ENDED_END(s.key.syscall);
    const double number = static_cast<double>(s.weight) / kOne;
    const double squares = static_cast<double>(s.ticks) / kOne;
    const double duration = DurationOf(row.bucket);
    const double interval = static_cast<double>(tick_interval_ns) / duration;
    const double least = number * std::min(interval * interval, 1.0) / 3;
    row.waits = scale * number;
    row.variance = scale * scale * std::max(squares - number, least);
    // The same if all waits were taken: a wait that a tick sees stands for so many.
    const double most = of_tick / duration;
    const double of_ticks = std::max(most - 1, std::min(most * most, 1.0) / 3);
    row.of_choice = std::max(row.variance - scale * scale * number * of_ticks, 0.0);
    all_squares += squares;
    expected_squares += number * std::max(most, 1.0);
  }
  const bool chosen = all_squares > kChosen * expected_squares;
  for (EndedRow& row : thread.rows) {
    if (!chosen) row.of_choice = 0;
    const double duration = DurationOf(row.bucket);
    thread.time_variance += (row.variance - row.of_choice) * duration * duration;
  }
  return thread;
}

double WaitEstimate::Error() const { return std::sqrt(variance); }

void WaitCount::AddThread(std::span<const EndedRow* const> rows, const EndedThread& thread) {
  AddRows(rows, thread, [](const EndedRow&) { return true; }, &waits_);
  AddRows(rows, thread, [](const EndedRow& r) { return r.end == PROFD_END_TIMEOUT; }, &timeouts_);
  AddRows(rows, thread, [](const EndedRow& r) { return r.end == PROFD_END_SIGNAL; }, &interrupted_);
  for (const EndedRow* row : rows) {
    ends_known_ = ends_known_ && row->end != PROFD_END_UNKNOWN;
    Bucket& bucket = buckets_[row->bucket];
    bucket.waits += row->waits;
    bucket.variance += row->variance;
  }
}

double WaitCount::ShareErrorAt(double part) const {
  double all = 0, below = 0, variance = 0;
  for (const auto& [number, bucket] : buckets_) all += bucket.waits;
  for (const auto& [number, bucket] : buckets_) {
    const double residual = below < part * all ? 1 - part : part;
    variance += residual * residual * bucket.variance;
    below += bucket.waits;
  }
  return std::sqrt(variance) / all;
}

WaitQuantile WaitCount::Quantile(double part) const {
  Durations durations;
  for (const auto& [number, bucket] : buckets_) {
    const double count = std::clamp(bucket.waits * kOne, 0.0, kMostCounted);
    durations.Add(number, static_cast<uint64_t>(std::llround(count)), 0);
  }
  if (durations.count() == 0) return {};
  // The bucket of a rank, as Durations finds it.
  const auto bucket_at = [&](double share) {
    double sum = 0, rank = share * static_cast<double>(durations.count());
    size_t last = 0;
    for (size_t i = 0; i < PROFD_DURATION_BUCKETS; i++) {
      if (durations.buckets()[i] == 0) continue;
      last = i;
      sum += static_cast<double>(durations.buckets()[i]);
      if (sum >= rank) break;
    }
    return last;
  };
  const double width = kNormal95 * ShareErrorAt(part);
  return {.value_ns = durations.Quantile(part),
          .low_ns = DurationBucketBegin(bucket_at(part - width)),
          .high_ns = DurationBucketBegin(bucket_at(part + width) + 1)};
}

}  // namespace profd
