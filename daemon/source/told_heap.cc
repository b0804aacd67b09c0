#include "daemon/source/told_heap.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "daemon/base/wrapping.h"

namespace profd {
namespace {

// The largest interval: log2 of bytes.
constexpr double kMostSampleBits = 47;

WatchId WatchOf(const profd_told_record& record) {
  return WatchId{static_cast<uint16_t>(record.watch_id)};
}

}  // namespace

uint64_t SampleBytesOf(uint64_t size, uint64_t weight) {
  if (weight <= size) return 1;
  const double share = static_cast<double>(size) / static_cast<double>(weight);
  // For an object much smaller than R, the weight is R.
  const double interval =
      share > 0 ? -static_cast<double>(size) / std::log1p(-share) : static_cast<double>(weight);
  const double bits = std::round(std::log2(std::max(interval, 1.0)));
  return uint64_t{1} << static_cast<int>(std::min(bits, kMostSampleBits));
}

void ToldHeap::Apply(const profd_told_record& record, const LiveSampling& source) {
  ++records_;
  // From earlier probes.
  if (static_cast<int64_t>(record.time) < source.since_ns) return;
  const Place place = {record.pid, WatchOf(record)};
  if (record.gone != 0) {
    const std::optional<ObjectWeight> weight = live_.Take(place, source, record.address);
    if (weight) Count(record, Kind::kFree, RoundedSum(weight->bytes));
    return;
  }
  const auto bytes = static_cast<double>(record.weight);
  const uint64_t sample_bytes = SampleBytesOf(record.size, record.weight);
  const double objects = record.size == 0 ? 1 : bytes / static_cast<double>(record.size);
  live_.Put(place, source, record.address,
            {.thread = ThreadId{record.thread_id},
             .stack = StackId{record.stack},
             .sample_bytes = sample_bytes,
             .weight = {.bytes = bytes, .objects = objects}});
  Count(record, Kind::kAlloc, static_cast<int64_t>(record.weight));
  totals_[WatchOf(record)].sample_bytes = sample_bytes;
}

void ToldHeap::Count(const profd_told_record& record, Kind kind, int64_t bytes) {
  const bool freed = kind == Kind::kFree;
  const HeapDelta event = {.bytes = bytes, .seen_bytes = bytes, .events = 1};
  LedgerDelta& ledger = ledgers_[ThreadId{record.thread_id}];
  AllocatorTotals& totals = totals_[WatchOf(record)].totals;
  AddHeap(event, freed ? &ledger.freed : &ledger.allocated);
  AddHeap(event, freed ? &totals.freed : &totals.allocated);
  // Without a stack, it counts only in the totals.
  if (record.stack == 0) return;
  const SampleKey key = {
      .thread = ThreadId{record.thread_id}, .stack = StackId{record.stack}, .kind = kind};
  Sum& sum = samples_[key];
  sum.bytes = WrappingAdd(sum.bytes, bytes);
  ++sum.count;
}

void ToldHeap::Finish(ProfileDelta& delta) {
  for (const auto& [key, sum] : samples_) {
    delta.samples.push_back({.key = key, .weight = sum.bytes, .ticks = sum.count});
  }
  for (const auto& [thread, ledger] : ledgers_) {
    delta.ledgers.push_back({.thread = thread, .delta = ledger});
  }
  samples_.clear();
  ledgers_.clear();
  live_.Finish(delta);
}

}  // namespace profd
