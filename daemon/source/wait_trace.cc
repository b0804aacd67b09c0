#include "daemon/source/wait_trace.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace profd {
namespace {

constexpr size_t kMostWaits = 4096;
// A wait that lasts is told from this age on: most are over soon, and told then.
constexpr int64_t kLastsNs = 1'000'000'000;
// By how much the begin of one wait may differ from visit to visit.
constexpr int64_t kSameBeginNs = 1'000'000;

bool Waits(const profd_visit& visit) {
  return (visit.outcome == PROFD_VISIT_SAME || visit.outcome == PROFD_VISIT_NEW ||
          visit.outcome == PROFD_VISIT_STILL) &&
         visit.reason != PROFD_REASON_RUNQUEUE;
}

}  // namespace

void WaitLog::Tell(uint64_t thread, const WaitTrace& trace, int64_t end_ns, bool lasts) {
  if (waits_.size() >= kMostWaits) {
    ++lost_;
    return;
  }
  waits_.push_back(
      {.key = {.thread = ThreadId{thread},
               .stack = StackId{trace.stack},
               .argument = trace.arg0,
               .syscall = trace.sysno,
               .reason = trace.reason < kReasonCount ? Reason{trace.reason} : Reason::kOther,
               .kind = Kind::kWait},
       .begin_ns = trace.begin_ns,
       .duration_ns = trace.seen_ns - trace.begin_ns,
       .doubt_ns = trace.before_ns + (lasts ? 0 : end_ns - trace.seen_ns),
       .earlier = trace.earlier,
       .lasts = lasts});
}

void WaitLog::Left(uint64_t thread, int64_t end_ns, WaitTrace* trace) {
  const int64_t least = least_[PROFD_LONG_WAIT_CLASS(trace->reason)];
  if (trace->begin_ns != 0 && !trace->followed && least > 0 &&
      trace->seen_ns - trace->begin_ns >= least) {
    Tell(thread, *trace, end_ns, false);
  }
  trace->begin_ns = 0;
}

void WaitLog::Visited(const profd_visit& visit, int64_t begin_ns, int64_t end_ns,
                      WaitTrace* trace) {
  const bool waits = Waits(visit);
  const auto since = static_cast<int64_t>(visit.since);
  const bool same = trace->begin_ns != 0 && waits &&
                    (visit.outcome != PROFD_VISIT_NEW ||
                     (since != 0 && std::abs(since - trace->begin_ns) < kSameBeginNs));
  if (!same && trace->begin_ns != 0) {
    trace->followed = trace->followed && (visit.followed != 0 || visit.outcome == PROFD_VISIT_GONE);
    Left(visit.thread_id, end_ns, trace);
  }
  if (!waits) {
    trace->seen_ns = begin_ns;
    return;
  }
  if (!same) {
    trace->told_ns = 0;
    trace->begin_ns = since != 0 ? since : end_ns;
    trace->before_ns =
        since != 0 || trace->seen_ns == 0 ? 0 : std::max<int64_t>(0, end_ns - trace->seen_ns);
    trace->earlier = since == 0 ? trace->seen_ns == 0 : (visit.followed & PROFD_FOLLOWED_LATE) != 0;
  }
  trace->followed = visit.followed != 0;
  trace->stack = visit.stack;
  trace->arg0 = visit.arg0;
  trace->sysno = visit.sysno;
  trace->reason = visit.reason;
  trace->seen_ns = std::max(begin_ns, trace->begin_ns);
  const int64_t age = trace->seen_ns - trace->begin_ns;
  const bool due = trace->told_ns == 0 || trace->seen_ns - trace->told_ns >= repeat_ns_;
  if (age < kLastsNs || !due) return;
  trace->told_ns = trace->seen_ns;
  Tell(visit.thread_id, *trace, end_ns, true);
}

uint64_t WaitLog::Take(std::vector<LongWait>& waits) {
  waits.insert(waits.end(), waits_.begin(), waits_.end());
  waits_.clear();
  return std::exchange(lost_, 0);
}

WaitTrace* WaitTraces::Of(uint64_t thread) {
  Entry& entry = entries_[thread];
  entry.tick = tick_;
  return &entry.trace;
}

void WaitTraces::End(int64_t end_ns, WaitLog* log) {
  absl::erase_if(entries_, [&](auto& entry) {
    if (entry.second.tick == tick_) return false;
    log->Left(entry.first, end_ns, &entry.second.trace);
    return true;
  });
}

}  // namespace profd
