#include "daemon/service/thread_totals.h"

#include <algorithm>
#include <array>

#include "daemon/profile/durations.h"
#include "daemon/service/messages.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

using ReasonDurations = std::array<Durations, kReasonCount>;

ReasonDurations DurationsOf(const MergedThread& thread) {
  ReasonDurations durations;
  for (const Sample& sample : thread.samples) {
    if (sample.key.kind != Kind::kDuration || sample.ticks <= 0) continue;
    durations[static_cast<size_t>(sample.key.reason)].Add(
        sample.key.argument, static_cast<uint64_t>(sample.ticks), sample.weight);
  }
  return durations;
}

void FillDurations(const Durations& durations, v1::ReasonTotal* total) {
  if (durations.count() == 0) return;
  total->set_measured(durations.count());
  total->set_p50_ns(durations.Quantile(0.5));
  total->set_p99_ns(durations.Quantile(0.99));
  total->set_max_ns(durations.Longest());
  total->set_max_rounded(durations.known_longest() == 0);
  const auto& buckets = durations.buckets();
  const auto last =
      std::find_if(buckets.rbegin(), buckets.rend(), [](uint64_t count) { return count > 0; });
  total->mutable_durations()->Add(buckets.begin(), last.base());
}

}  // namespace

void FillThread(const MergedThread& merged, const EstimatedThread& estimate, v1::Thread* thread) {
  const ThreadInfo& info = *merged.info;
  const LedgerDelta& ledger = estimate.ledger;
  const ReasonDurations durations = DurationsOf(merged);
  thread->set_tid(info.tid);
  thread->set_name(CleanText(info.name, kMaxNameText));
  thread->set_exited(info.exited);
  thread->set_folded_processes(Count(ledger.folded_processes));
  thread->set_wall_ns(ledger.wall_ns);
  thread->set_on_cpu_ns(ledger.on_cpu_ns);
  for (size_t r = 0; r < kReasonCount; r++) {
    if (ledger.off_ns[r] == 0 && ledger.waits[r] == 0 && estimate.ticks[r] == 0 &&
        durations[r].count() == 0) {
      continue;
    }
    v1::ReasonTotal* total = thread->add_off();
    total->set_reason(ToProto(static_cast<Reason>(r)));
    total->set_time_ns(ledger.off_ns[r]);
    total->set_waits(Count(ledger.waits[r]));
    total->set_samples(Count(estimate.ticks[r]));
    FillDurations(durations[r], total);
  }
  thread->set_estimated_ns(estimate.estimated_ns);
  thread->set_books_on_cpu_ns(ledger.books_on_cpu_ns);
  thread->set_books_runqueue_ns(ledger.books_runqueue_ns);
  thread->set_voluntary_switches(Count(ledger.voluntary_switches));
  thread->set_involuntary_switches(Count(ledger.involuntary_switches));
  thread->set_minor_faults(Count(ledger.minor_faults));
  thread->set_major_faults(Count(ledger.major_faults));
  thread->set_read_bytes(Count(ledger.read_bytes));
  thread->set_write_bytes(Count(ledger.write_bytes));
}

}  // namespace profd
