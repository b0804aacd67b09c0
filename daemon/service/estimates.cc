#include "daemon/service/estimates.h"

#include <algorithm>
#include <cmath>

#include "daemon/base/wrapping.h"
#include "daemon/profile/waker_estimate.h"

namespace profd {
namespace {

// Of one sample: sums of them are no overflow.
constexpr double kMostBytes = 1e15;

// Bytes of a thread that belong to stacks which no sample saw.
int64_t UnsampledOf(const SampleTypeInfo& type, const MergedThread& thread) {
  switch (type.formula) {
    case ErrorFormula::kAllocatorShare: {
      std::vector<Sample> samples = thread.samples.OfKind(type.kind);
      std::erase_if(samples, [](const Sample& s) { return IsFromBursts(s.key); });
      return UnsampledHeap(HeapOf(thread.ledger, type.kind), samples);
    }
    case ErrorFormula::kPoisson: {
      int64_t bytes = 0;
      for (const Sample& s : thread.samples) {
        if (s.key.kind == type.kind && s.key.stack == StackId{}) {
          bytes = WrappingAdd(bytes, s.weight);
        }
      }
      return bytes;
    }
    case ErrorFormula::kLedgerShare:
    case ErrorFormula::kCountShare:
    case ErrorFormula::kBinomial:
    case ErrorFormula::kExact:
      break;
  }
  return 0;
}

}  // namespace

void ScaleBursts(MergedProfile* profile) {
  if (profile->burst_span_ns <= 0 || profile->bursts_on_ns <= 0) return;
  const double scale =
      static_cast<double>(profile->bursts_on_ns) / static_cast<double>(profile->burst_span_ns);
  const auto scaled = [scale](int64_t bytes) {
    return static_cast<int64_t>(
        std::llround(std::clamp(scale * static_cast<double>(bytes), 0.0, kMostBytes)));
  };
  for (MergedThread& thread : profile->threads) {
    LedgerDelta* const ledger = thread.ledger.whole();
    if (ledger == nullptr) continue;
    HeapDelta& allocated = ledger->allocated;
    HeapDelta& freed = ledger->freed;
    allocated.burst_doubt = scaled(allocated.burst_doubt);
    freed.burst_doubt = scaled(freed.burst_doubt);
    // The totals are the sums, to the byte.
    allocated.burst_bytes = freed.burst_bytes = 0;
    thread.samples.Change([&](Sample* sample) {
      if (!IsFromBursts(sample->key)) return;
      sample->weight = scaled(sample->weight);
      sample->squares *= scale * scale;
      int64_t& total = sample->key.kind == Kind::kAlloc ? allocated.burst_bytes : freed.burst_bytes;
      total = WrappingAdd(total, sample->weight);
    });
  }
}

const HeapDelta& HeapOf(const MergedLedger& ledger, Kind kind) {
  return kind == Kind::kFree ? ledger.freed() : ledger.allocated();
}

Estimates::Estimates(const MergedProfile& profile, std::span<const SampleTypeInfo* const> types)
    : profile_(profile),
      basis_{.ledger = profile.books_ns > 0 || profile.switch_ns > 0, .ticks = profile.ticks} {
  for (const SampleTypeInfo* type : types) {
    for (const MergedThread& thread : profile.threads) {
      const int64_t bytes = UnsampledOf(*type, thread);
      if (bytes == 0) continue;
      int64_t& sum = unsampled_[{thread.info->pid, type->kind}];
      sum = WrappingAdd(sum, bytes);
    }
  }
}

int64_t Estimates::Unsampled(int32_t pid, Kind kind) const {
  const auto it = unsampled_.find({pid, kind});
  return it == unsampled_.end() ? 0 : it->second;
}

EstimatedThread Estimates::Waits(const MergedThread& thread) const {
  return EstimateThread(thread.info->id, thread.ledger.Get(), thread.samples.OfKind(Kind::kWait),
                        basis_);
}

std::vector<EstimatedSample> Estimates::Running(const MergedThread& thread) const {
  return EstimateRunning(thread.info->id, thread.ledger.Get(), thread.samples.OfKind(Kind::kCpu),
                         basis_);
}

std::vector<EstimatedSample> Estimates::Of(const MergedThread& thread, const EstimatedThread& waits,
                                           const SampleTypeInfo& type) const {
  // The caller takes those for locks, and for CPUs.
  if (type.kind == Kind::kWait || type.kind == Kind::kLocks || type.kind == Kind::kRunQueue) {
    return waits.samples;
  }
  if (type.kind == Kind::kCpu) return Running(thread);
  if (type.kind == Kind::kWaker) return EstimateWakers(waits, thread.samples.OfKind(Kind::kWaker));
  if (type.kind == Kind::kWall) return JoinStates(waits, Running(thread));
  return Of(thread, type);
}

std::vector<EstimatedSample> Estimates::Of(const MergedThread& thread,
                                           const SampleTypeInfo& type) const {
  std::vector<Sample> samples = thread.samples.OfKind(type.kind);
  const int64_t unsampled = Unsampled(thread.info->pid, type.kind);
  switch (type.formula) {
    case ErrorFormula::kLedgerShare:
      break;
    case ErrorFormula::kCountShare:
      return EstimateSwitches(thread.info->id, thread.ledger.Get(), samples);
    case ErrorFormula::kAllocatorShare: {
      const HeapDelta& heap = HeapOf(thread.ledger, type.kind);
      const auto bursts = std::stable_partition(
          samples.begin(), samples.end(), [](const Sample& s) { return !IsFromBursts(s.key); });
      std::vector<EstimatedSample> estimates =
          EstimateHeap(thread.info->id, type.kind, heap, {samples.begin(), bursts}, unsampled);
      for (EstimatedSample& s : EstimateBursts({bursts, samples.end()}, heap, profile_.bursts)) {
        estimates.push_back(s);
      }
      return estimates;
    }
    case ErrorFormula::kPoisson:
      return EstimateLevels(samples, unsampled);
    case ErrorFormula::kBinomial:
      return EstimateMappings(samples);
    case ErrorFormula::kExact:
      return SumRequests(samples);
  }
  return {};
}

}  // namespace profd
