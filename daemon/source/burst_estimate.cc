#include "daemon/source/burst_estimate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/wrapping.h"

namespace profd {
namespace {

// At least this share of a thread's time in a burst is assumed to be left to it.
constexpr double kLeastLeft = 0.1;
// Relative error of the time that the probes took. It is larger for a thread that queues for a CPU,
// because others use its caches.
constexpr double kTakenError = 0.25;
constexpr double kTakenErrorQueued = 0.35;
// If an error is anywhere between 0 and 1: its root mean square.
constexpr double kUniformError = 0.58;

int64_t Rounded(double value) { return std::llround(std::clamp(value, 0.0, 9e18)); }

// The samples of one thread and kind.
struct Walked {
  std::vector<const CounterEntry*> samples;
  double weight = 0;
};

// Divides `bytes`, each of which stands for `scale`, among the sampled stacks.
HeapDelta Divide(ThreadId thread, Kind kind, uint64_t bytes, uint32_t calls, double scale,
                 double doubt, const Walked& walked, ProfileDelta& delta) {
  HeapDelta heap = {.burst_calls = calls};
  if (bytes == 0) return heap;
  const double whole = static_cast<double>(bytes) * scale;
  const auto add = [&](StackId stack, double share, uint64_t events) {
    const int64_t weight = Rounded(whole * share);
    heap.burst_bytes = WrappingAdd(heap.burst_bytes, weight);
    delta.samples.push_back(
        {.key = {.thread = thread, .stack = stack, .argument = PROFD_BURST_ARGUMENT, .kind = kind},
         .weight = weight,
         .ticks = static_cast<int64_t>(events)});
  };
  for (const CounterEntry* entry : walked.samples) {
    add(StackId{entry->first.stack},
        static_cast<double>(entry->second.weight) / std::max(walked.weight, 1.0),
        entry->second.count);
  }
  if (walked.samples.empty()) add(StackId{}, 1, calls);
  heap.burst_doubt = Rounded(static_cast<double>(heap.burst_bytes) * doubt);
  return heap;
}

}  // namespace

BurstEffect EffectOf(const profd_malloc_thread& did, int64_t length_ns, double taken_ns) {
  const auto length = static_cast<double>(length_ns);
  // The time up to its last call.
  const auto between = static_cast<int64_t>(did.last_ns - did.first_ns);
  const double stretch = std::clamp(static_cast<double>(between), 0.0, length);
  const double queued = std::min(static_cast<double>(did.queued_ns), stretch);
  double waited = std::min(static_cast<double>(did.waited_ns), stretch);
  double could = stretch - queued;  // time in which it could have run
  // A thread that never waited is assumed to have no CPU after its last call.
  if (did.waited_ns != 0) {
    const double gap = did.calls > 0 ? stretch / did.calls : 0;
    waited += std::max(0.0, length - stretch - 2 * gap);
    could = length - queued;
  }
  if (could <= 0) return {};
  taken_ns = std::max(taken_ns, 0.0);
  const double lost = std::max(0.0, taken_ns - waited);
  BurstEffect effect;
  effect.correction = could / std::max(could - lost, kLeastLeft * could);
  const double known = did.queued_ns > 0 ? kTakenErrorQueued : kTakenError;
  effect.doubt =
      known * (effect.correction - 1) + kUniformError * std::min(taken_ns, waited) / could;
  return effect;
}

void EstimateBurst(const BurstResult& burst, ProfileDelta& delta,
                   std::map<WatchId, AllocatorTotals>& totals) {
  if (burst.length_ns <= 0 || burst.span_ns <= 0) return;
  delta.bursts += 1;
  delta.burst_ns += burst.length_ns;
  delta.burst_span_ns += burst.span_ns;
  absl::flat_hash_map<std::pair<uint64_t, uint8_t>, Walked> walked;
  for (const CounterEntry& entry : burst.counts.samples) {
    Walked& of = walked[{entry.first.thread_id, entry.first.kind}];
    of.samples.push_back(&entry);
    of.weight += static_cast<double>(entry.second.weight);
  }
  const double span = static_cast<double>(burst.span_ns) / static_cast<double>(burst.length_ns) *
                      burst.process_weight;
  const double skipped = static_cast<double>(burst.skipped_ns) / static_cast<double>(burst.span_ns);
  for (const auto& [id, did] : burst.counts.threads) {
    const ThreadId thread{id};
    const double taken = static_cast<double>(did.ns) + burst.traps.Of(did.calls, did.stepped);
    BurstEffect effect = EffectOf(did, burst.length_ns, taken);
    effect.doubt += kUniformError * skipped;
    const double scale = span * effect.correction;
    LedgerDelta ledger;
    ledger.allocated = Divide(thread, Kind::kAlloc, did.allocated, did.allocations, scale,
                              effect.doubt, walked[{id, PROFD_KIND_ALLOC}], delta);
    ledger.freed = Divide(thread, Kind::kFree, did.freed, did.frees, scale, effect.doubt,
                          walked[{id, PROFD_KIND_FREE}], delta);
    AllocatorTotals& total = totals[WatchId{static_cast<uint16_t>(did.watch_id)}];
    AddHeap(ledger.allocated, &total.allocated);
    AddHeap(ledger.freed, &total.freed);
    delta.ledgers.push_back({.thread = thread, .delta = ledger});
  }
}

}  // namespace profd
