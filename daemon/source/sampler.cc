#include "daemon/source/sampler.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "daemon/base/log.h"

namespace profd {
namespace {

// The log is to be emptied when this share of it is filled.
constexpr double kFilled = 0.4;
// Quiet threads that a drain counts at once: the next tick waits meanwhile.
constexpr size_t kSettledAtOnce = 512;
// Threads that were told and not taken up.
constexpr size_t kMostToLearn = 1 << 16;

// How often a wait that lasts is told, with so many threads.
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kMostRepeatSeconds = 10;
constexpr size_t kThreadsPerSecond = 256;
int64_t RepeatOf(size_t threads) {
  return kSecondNs * std::min<int64_t>(1 + static_cast<int64_t>(threads / kThreadsPerSecond),
                                       kMostRepeatSeconds);
}

bool IsSample(const profd_visit& visit) {
  return visit.outcome == PROFD_VISIT_SAME || visit.outcome == PROFD_VISIT_NEW ||
         visit.outcome == PROFD_VISIT_STILL;
}

// One visit that stands for so many ticks.
profd_sample_value Weight(int64_t weight_ns, uint32_t stride) {
  return {.weight = static_cast<uint64_t>(weight_ns) * stride, .count = 1};
}

}  // namespace

Sampler::Sampler(TickKernel* kernel, const Clock* clock, const Options& options)
    : kernel_(kernel),
      clock_(clock),
      schedule_(options.interval_ns, 0, options.seed + 1),
      visits_(options.seed),
      log_(options.counters) {
  orders_.interval_ns = counts_.interval_ns = options.interval_ns;
}

void Sampler::Begin(int64_t now_ns) {
  {
    const absl::MutexLock lock(&mutex_);
    ++orders_.turn;
    orders_.on = true;
    orders_.begin_ns = now_ns;
  }
  Wake();
}

void Sampler::Pause() {
  const absl::MutexLock lock(&mutex_);
  ++orders_.turn;
  orders_.on = false;
}

void Sampler::SetInterval(int64_t interval_ns) {
  {
    const absl::MutexLock lock(&mutex_);
    if (std::exchange(orders_.interval_ns, interval_ns) <= interval_ns) return;
    orders_.cut_ns = clock_->MonotonicNs();
  }
  Wake();
}

void Sampler::SetLongestStride(uint32_t ticks) {
  const absl::MutexLock lock(&mutex_);
  orders_.stride = ticks;
}

void Sampler::SetLongWaits(const LongWaitLeast& least) {
  const absl::MutexLock lock(&mutex_);
  waits_.SetLeast(least);
}

uint64_t Sampler::TakeLongWaits(std::vector<LongWait>& waits) {
  const absl::MutexLock lock(&mutex_);
  return waits_.Take(waits);
}

void Sampler::Learn(std::vector<Known>& known) {
  {
    const absl::MutexLock lock(&mutex_);
    // The kernel keeps the sampler for long. The next drains tell of those who run.
    if (to_learn_.size() > kMostToLearn) to_learn_.clear();
    if (to_learn_.empty()) {
      to_learn_.swap(known);
    } else {
      to_learn_.insert(to_learn_.end(), known.begin(), known.end());
    }
    known.clear();
    if (orders_.on) return;
  }
  Wake();  // while it does not tick, too, so that they do not pile up
}

bool Sampler::TakeOrders() {
  {
    const absl::MutexLock lock(&mutex_);
    const bool begins = orders_.turn != taken_.turn && orders_.on;
    taken_ = orders_;
    schedule_.SetInterval(taken_.interval_ns);
    if (begins) {
      schedule_.Resume(taken_.begin_ns);
      advanced_ns_ = taken_.begin_ns;
      cut_ns_ = taken_.cut_ns;
      CountMissed();
    } else if (IsCut() && schedule_.next_ns() > CutAt()) {
      Advance();
      CountMissed();
    }
    known_.swap(to_learn_);
    counts_.interval_ns = schedule_.interval_ns();
    visits_.SetLongestStride(taken_.stride);
    for (const Known& thread : known_) visits_.Add(thread.id, thread.kernel_tid);
    next_ns_ = taken_.on ? schedule_.next_ns() : INT64_MAX;
    end_ns_ = taken_.on ? schedule_.end_ns() : INT64_MAX;
  }
  known_.clear();
  return taken_.on && clock_->MonotonicNs() >= next_ns_;
}

bool Sampler::Tick() {
  if (!TakeOrders()) return false;
  const int64_t weight_ns = schedule_.interval_ns();
  kernel_->SetTickWeight(weight_ns);
  const absl::Status status =
      kernel_->ticks_by_list() ? VisitListed(weight_ns) : VisitAll(weight_ns);
  Advance();
  next_ns_ = schedule_.next_ns();
  // All that this thread does is the tick's: what it took to wake up, too.
  const int64_t cpu_ns = clock_->ThreadCpuNs();
  tick_cpu_ns_ = cpu_ns - std::exchange(cpu_ns_, cpu_ns);
  int64_t failed = 0;
  {
    const absl::MutexLock lock(&mutex_);
    CountMissed();
    counts_.interval_ns = schedule_.interval_ns();
    end_ns_ = schedule_.end_ns();
    counts_.idle_ticks = visits_.idle_ticks();
    counts_.cpu_ns = cpu_ns;
    failed = counts_.failed;
  }
  // Not at every tick of a kernel that refuses all.
  if (!status.ok() && failed <= 1) LogError("tick failed: ", status.ToString());
  return kernel_->RingHasNews();
}

void Sampler::Advance() {
  const int64_t now_ns = clock_->MonotonicNs();
  if (IsCut()) {
    schedule_.Cut(CutAt(), now_ns);
    cut_ns_ = taken_.cut_ns;
  } else {
    schedule_.Advance(now_ns);
  }
  advanced_ns_ = now_ns;
}

void Sampler::CountMissed() {
  const int64_t passed = schedule_.missed() - std::exchange(schedule_missed_, schedule_.missed());
  counts_.missed += std::max<int64_t>(passed - std::exchange(overdue_told_, 0), 0);
}

int64_t Sampler::Overdue() const {
  if (!orders_.on || orders_.turn != taken_.turn) return 0;
  return std::max<int64_t>(clock_->MonotonicNs() - end_ns_, 0) / counts_.interval_ns;
}

bool Sampler::CountTick(const absl::Status& status, int64_t weight_ns) {
  if (orders_.turn != taken_.turn) return false;
  if (!status.ok()) {
    ++counts_.failed;
    return false;
  }
  ++counts_.ticks;
  counts_.weight_ns += weight_ns;
  return true;
}

void Sampler::CountRest(const profd_visit& visit, const TickSum& ticks, Visits::Kept& kept) {
  waits_.Visited(visit, asked_ns_, answered_ns_, &kept.trace);
  Count(visit, {.weight = ticks.ns, .count = ticks.ticks}, kept.place);
}

size_t Sampler::BeginTick(std::span<profd_visit> table, int64_t weight_ns, bool& watches) {
  const absl::MutexLock lock(&mutex_);
  kernel_->TakeBorn([this](const profd_born& born) {
    mutex_.AssertHeld();
    visits_.Add(ThreadId{born.thread_id}, born.kernel_tid);
  });
  visits_.Begin(kernel_->Woken(), weight_ns,
                [this](const profd_visit& visit, const TickSum& ticks, Visits::Kept& kept) {
                  mutex_.AssertHeld();
                  CountRest(visit, ticks, kept);
                });
  const TickSum& before = visits_.ticks();
  kernel_->SetTickSums(
      before, {.ns = before.ns + static_cast<uint64_t>(weight_ns), .ticks = before.ticks + 1});
  watches = visits_.size() != 0;
  return visits_.Next(table);
}

absl::Status Sampler::VisitListed(int64_t weight_ns) {
  const std::span<profd_visit> table = kernel_->VisitTable();
  absl::Status status;
  bool first = true, counts = false, watches = false;
  size_t count = BeginTick(table, weight_ns, watches);
  do {
    const int64_t begin_ns = clock_->MonotonicNs();
    // Also if nobody is visited: the kernel keeps how long this thread waited for its CPU.
    if (watches) status = kernel_->Visit(count, schedule_.next_ns());
    const int64_t end_ns = clock_->MonotonicNs();
    const absl::MutexLock lock(&mutex_);
    waits_.SetRepeat(RepeatOf(visits_.size()));
    if (std::exchange(first, false)) {
      counts = CountTick(status, weight_ns);
      if (counts) {
        visits_.CountTick(weight_ns);
        asked_ns_ = begin_ns;
        answered_ns_ = end_ns;
      } else {
        kernel_->SetTickSums(visits_.ticks(), visits_.ticks());
      }
    }
    counts &= orders_.turn == taken_.turn;
    visits_.Learn(table.first(count),
                  [&](const profd_visit& visit, uint32_t stride, Visits::Kept& kept) {
                    mutex_.AssertHeld();
                    if (!counts) return;
                    waits_.Visited(visit, begin_ns, end_ns, &kept.trace);
                    if (!IsSample(visit)) return;
                    Count(visit, Weight(weight_ns, stride), kept.place);
                  });
    count = visits_.Next(table);
    if (count == 0) visits_.End();
  } while (count != 0);
  return status;
}

absl::Status Sampler::VisitAll(int64_t weight_ns) {
  found_.clear();
  const int64_t begin_ns = clock_->MonotonicNs();
  const absl::Status status =
      kernel_->VisitAll(schedule_.next_ns(), [this](std::span<const uint8_t> bytes) {
        profd_visit visit;
        if (bytes.size() != sizeof(visit)) return;
        std::memcpy(&visit, bytes.data(), sizeof(visit));
        found_.push_back(visit);
      });
  const int64_t end_ns = clock_->MonotonicNs();
  const absl::MutexLock lock(&mutex_);
  if (!CountTick(status, weight_ns)) return status;
  waits_.SetRepeat(RepeatOf(found_.size()));
  traces_.Begin();
  for (const profd_visit& visit : found_) {
    SamplePlace nowhere;
    waits_.Visited(visit, begin_ns, end_ns, traces_.Of(visit.thread_id));
    if (IsSample(visit)) Count(visit, Weight(weight_ns, 1), nowhere);
  }
  traces_.End(end_ns, &waits_);
  return status;
}

void Sampler::Count(const profd_visit& visit, const profd_sample_value& value, SamplePlace& place) {
  const profd_sample_key key = {.thread_id = visit.thread_id,
                                .stack = visit.stack,
                                .arg0 = visit.arg0,
                                .sysno = visit.sysno,
                                .reason = visit.reason,
                                .kind = PROFD_KIND_WAIT,
                                .pad = {}};
  if (log_.Add(key, value, place)) return;
  counts_.lost += static_cast<int64_t>(value.count);
  counts_.lost_ns += static_cast<int64_t>(value.weight);
}

Sampler::Counts Sampler::Take(std::vector<CounterEntry>& samples) {
  size_t place = 0;
  while (true) {
    const absl::MutexLock lock(&mutex_);
    place =
        visits_.Settle(place, kSettledAtOnce,
                       [this](const profd_visit& visit, const TickSum& ticks, Visits::Kept& kept) {
                         mutex_.AssertHeld();
                         CountRest(visit, ticks, kept);
                       });
    if (place != 0) continue;
    log_.Swap(samples);
    if (const int64_t overdue = Overdue(); overdue > overdue_told_) {
      counts_.missed += overdue - std::exchange(overdue_told_, overdue);
    }
    return counts_;
  }
}

Sampler::Counts Sampler::counts() const {
  const absl::MutexLock lock(&mutex_);
  return counts_;
}

size_t Sampler::quiet() const {
  const absl::MutexLock lock(&mutex_);
  return visits_.quiet();
}

bool Sampler::IsFilling() const {
  const absl::MutexLock lock(&mutex_);
  return static_cast<double>(log_.size()) > kFilled * static_cast<double>(log_.limit());
}

}  // namespace profd
