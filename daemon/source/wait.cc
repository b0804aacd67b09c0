#include "daemon/source/wait.h"

#include <utility>

#include "daemon/source/record.h"
#include "daemon/source/samples.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

// Share of the counters that new walks may take where drains are rare: a drain comes before.
constexpr uint64_t kWalksShare = 4;

}  // namespace

WaitSource::WaitSource(const SourceContext& context, int64_t interval_ns, uint64_t counters,
                       uint64_t seed)
    : context_(context),
      interval_ns_(interval_ns),
      counters_(counters),
      seed_(seed),
      knob_(interval_ns),
      visits_(seed) {
  knob_.SetByList(context_.kernel->ticks_by_list());
}

// Whom to visit is told here only where the kernel does not find them by itself.
std::vector<uint32_t> WaitSource::records() const {
  if (!context_.kernel->ticks_by_list()) return {};
  return {PROFD_RECORD_BORN, PROFD_RECORD_THREAD};
}

absl::Status WaitSource::OnRecord(uint32_t type, std::span<const uint8_t> bytes) {
  if (type == PROFD_RECORD_BORN) {
    ASSIGN_OR_RETURN(const auto born, DecodeRecord<profd_born_record>(bytes));
    visits_.Add(ThreadId{born.thread_id}, born.kernel_tid);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto thread, DecodeRecord<profd_thread_record>(bytes));
  visits_.Add(ThreadId{thread.thread_id}, thread.kernel_tid);
  return absl::OkStatus();
}

absl::Status WaitSource::Apply() {
  if (std::exchange(detached_, false) && schedule_) {
    schedule_->Resume(context_.clock->MonotonicNs());
  }
  if (schedule_) schedule_->SetInterval(knob_.IntervalAt(knob_.level()));
  visits_.SetLongestStride(knob_.StrideAt(knob_.level()));
  return absl::OkStatus();
}

void WaitSource::Step() {
  if (!schedule_ || context_.clock->MonotonicNs() < schedule_->next_ns()) return;
  const absl::Status status =
      context_.kernel->ticks_by_list()
          ? Visit()
          : context_.kernel->Tick(schedule_->interval_ns(), schedule_->next_ns());
  if (!status.ok()) spdlog::error("tick failed: {}", status.ToString());
  ++ticks_;
  context_.ring->Poll();
  schedule_->Advance(context_.clock->MonotonicNs());
  // What was used since the thread woke up is the tick's, too: on a busy machine it is more than
  // the rest.
  context_.cpu->Charge(&cpu_ns_);
}

absl::Status WaitSource::Visit() {
  // Threads that were born since the last tick are visited by this one.
  context_.ring->Poll();
  const std::span<profd_visit> visits = visits_.Next(schedule_->interval_ns());
  const absl::Status status = context_.kernel->TickListed(visits, schedule_->next_ns());
  visits_.Learn();
  return status;
}

WaitSource::Counts WaitSource::Count() const {
  Counts counts = {.kernel = context_.kernel->TickStats(),
                   .ticks = ticks_,
                   .missed = schedule_ ? schedule_->missed() : 0,
                   .idle_ticks = visits_.idle_ticks(),
                   .cpu_ns = cpu_ns_};
  if (!context_.kernel->ticks_by_list()) {
    counts.idle_ticks = static_cast<int64_t>(counts.kernel.repeats);
  }
  return counts;
}

absl::Status WaitSource::Drain(ProfileDelta& delta) {
  delta.tick_on = schedule_ != nullptr && !detached_;
  delta.tick_interval_ns = delta.tick_on ? schedule_->interval_ns() : 0;
  const absl::Status status = AddSamples(context_.kernel->DrainCounters(), delta);
  const Counts now = Count();
  delta.ticks = now.ticks - drained_.ticks;
  delta.ticks_missed = now.missed - drained_.missed;
  delta.walks = static_cast<int64_t>(now.kernel.walks - drained_.kernel.walks);
  delta.torn_walks = static_cast<int64_t>(now.kernel.torn - drained_.kernel.torn);
  drained_ = now;
  if (!schedule_) {
    schedule_ =
        std::make_unique<TickSchedule>(interval_ns_, context_.clock->MonotonicNs(), seed_ + 1);
  }
  return status;
}

bool WaitSource::WantsDrain(bool rare) const {
  return rare &&
         context_.kernel->TickStats().walks - drained_.kernel.walks > counters_ / kWalksShare;
}

void WaitSource::Costs(std::vector<CostRow>& rows) const {
  rows.push_back({.account = "tick",
                  .payer = Payer::kDaemon,
                  .ns = cpu_ns_,
                  .events = ticks_,
                  .governed = true});
}

void WaitSource::Learn(const Period& period) {
  const Counts now = Count();
  const Counts before = std::exchange(learned_, now);
  knob_.Learn({.seconds = period.seconds,
               .tick_cpu_ns = now.cpu_ns - before.cpu_ns,
               .drain_cpu_ns = period.drains_for_tick,
               .ticks = now.ticks - before.ticks,
               .walks = static_cast<int64_t>(now.kernel.walks - before.kernel.walks),
               .repeats = static_cast<int64_t>(now.kernel.repeats - before.kernel.repeats),
               .idle_ticks = now.idle_ticks - before.idle_ticks});
}

std::optional<LayerState> WaitSource::Status() const {
  return LayerState{.name = "tick", .on = !detached_, .note = detached_ ? kPausedNote : ""};
}

void WaitSource::Publish(CollectorState& state) const {
  state.tick_interval_ns = knob_.IntervalAt(knob_.level());
}

}  // namespace profd
