#include "daemon/source/wait.h"

#include <utility>

#include "daemon/source/record.h"
#include "daemon/source/samples.h"

namespace profd {

WaitSource::WaitSource(const SourceContext& context, int64_t interval_ns, uint64_t counters,
                       uint64_t seed)
    : context_(context),
      knob_(interval_ns),
      sampler_(context.kernel, context.clock,
               {.interval_ns = interval_ns, .counters = counters, .seed = seed}) {
  knob_.SetByList(context_.kernel->ticks_by_list());
}

// Whom to visit is told here only where the kernel does not find them by itself.
std::vector<uint32_t> WaitSource::records() const {
  if (!context_.kernel->ticks_by_list()) return {};
  return {PROFD_RECORD_THREAD};
}

// New threads the sampler learns of by itself. The number of one may have changed (exec), and after
// very many births at once some are found here.
absl::Status WaitSource::OnRecord(uint32_t /*type*/, std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const auto thread, DecodeRecord<profd_thread_record>(bytes));
  known_.push_back({.id = ThreadId{thread.thread_id}, .kernel_tid = thread.kernel_tid});
  return absl::OkStatus();
}

absl::Status WaitSource::Apply() {
  sampler_.SetInterval(knob_.IntervalAt(knob_.level()));
  sampler_.SetLongestStride(knob_.StrideAt(knob_.level()));
  if (std::exchange(detached_, false) && begun_) sampler_.Begin(context_.clock->MonotonicNs());
  return absl::OkStatus();
}

void WaitSource::Detach() {
  detached_ = true;
  sampler_.Pause();
}

WaitSource::Counts WaitSource::Count(const Sampler::Counts& sampler) const {
  Counts counts = {.kernel = context_.kernel->TickStats(), .sampler = sampler};
  if (!context_.kernel->ticks_by_list()) {
    counts.sampler.idle_ticks = static_cast<int64_t>(counts.kernel.repeats);
  }
  return counts;
}

absl::Status WaitSource::Drain(ProfileDelta& delta) {
  sampler_.Learn(known_);
  const Counts now = Count(sampler_.Take(samples_));
  MergeEntries(samples_);
  AddSamples(std::span<const CounterEntry>(samples_), delta);
  delta.tick_on = begun_ && !detached_;
  delta.ticks = now.sampler.ticks - drained_.sampler.ticks;
  if (delta.ticks > 0) {
    delta.tick_interval_ns = (now.sampler.weight_ns - drained_.sampler.weight_ns) / delta.ticks;
  } else if (delta.tick_on) {
    delta.tick_interval_ns = now.sampler.interval_ns;
  }
  delta.ticks_missed =
      now.sampler.missed + now.sampler.failed - drained_.sampler.missed - drained_.sampler.failed;
  delta.walks = static_cast<int64_t>(now.kernel.walks - drained_.kernel.walks);
  delta.torn_walks = static_cast<int64_t>(now.kernel.torn - drained_.kernel.torn);
  delta.losses[PROFD_LOSS_COUNTERS_FULL] +=
      static_cast<uint64_t>(now.sampler.lost - drained_.sampler.lost);
  delta.losses[PROFD_LOSS_COUNTERS_FULL_NS] +=
      static_cast<uint64_t>(now.sampler.lost_ns - drained_.sampler.lost_ns);
  drained_ = now;
  if (!std::exchange(begun_, true)) sampler_.Begin(context_.clock->MonotonicNs());
  return absl::OkStatus();
}

bool WaitSource::WantsDrain(bool rare) const { return rare && sampler_.IsFilling(); }

void WaitSource::Costs(std::vector<CostRow>& rows) const {
  const Sampler::Counts sampler = sampler_.counts();
  rows.push_back({.account = "tick",
                  .payer = Payer::kDaemon,
                  .ns = sampler.cpu_ns,
                  .events = sampler.ticks,
                  .governed = true});
}

void WaitSource::Learn(const Period& period) {
  const Counts now = Count(sampler_.counts());
  const Counts before = std::exchange(learned_, now);
  knob_.Learn({.seconds = period.seconds,
               .tick_cpu_ns = now.sampler.cpu_ns - before.sampler.cpu_ns,
               .drain_cpu_ns = period.drains_for_tick,
               .ticks = now.sampler.ticks - before.sampler.ticks,
               .walks = static_cast<int64_t>(now.kernel.walks - before.kernel.walks),
               .repeats = static_cast<int64_t>(now.kernel.repeats - before.kernel.repeats),
               .idle_ticks = now.sampler.idle_ticks - before.sampler.idle_ticks});
}

std::optional<LayerState> WaitSource::Status() const {
  return LayerState{.name = "tick", .on = !detached_, .note = detached_ ? kPausedNote : ""};
}

void WaitSource::Publish(CollectorState& state) const {
  state.tick_interval_ns = knob_.IntervalAt(knob_.level());
}

}  // namespace profd
