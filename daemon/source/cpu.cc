#include "daemon/source/cpu.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/log.h"
#include "daemon/source/samples.h"

namespace profd {
namespace {

// Of an interrupt without the program, where it cannot be measured; a slow virtual machine's.
constexpr double kAssumedInterruptNs = 5'000;

}  // namespace

absl::Status CpuSource::Attach() {
  // Not every kernel lets a thread without CAP_SYS_ADMIN have a clock of its own.
  interrupt_ns_ = context_.kernel->MeasureCpuInterrupt().value_or(kAssumedInterruptNs);
  // Once, to learn whether it is permitted. Apply sets the clocks when there are targets.
  RETURN_IF_ERROR(clocks_.SetInterval(knob_.IntervalAt(0)));
  return clocks_.SetInterval(0);
}

void CpuSource::Detach() {
  detached_ = true;
  (void)clocks_.SetInterval(0);  // cannot fail
}

absl::Status CpuSource::Apply() {
  detached_ = false;
  const int64_t interval_ns = knob_.IntervalAt(knob_.level());
  // Not at each call: Step tries again what failed.
  if (interval_ns == clocks_.interval_ns()) return absl::OkStatus();
  failed_ = clocks_.SetInterval(interval_ns);
  return failed_;
}

void CpuSource::Step() {
  absl::Status status = clocks_.Step();
  if (!status.ok() && failed_.ok()) LogWarning(status.message());
  if (clocks_.interval_ns() != 0) failed_ = std::move(status);
}

absl::Status CpuSource::Drain(ProfileDelta& delta) {
  delta.cpu_on = clocks_.cpus() > 0;
  return AddSamples(context_.kernel->DrainCpuCounters(), delta);
}

void CpuSource::Costs(std::vector<CostRow>& rows) const {
  const profd_cpu_cost cost = context_.kernel->CpuCost();
  rows.push_back({.account = "cpu",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(CpuKnob::InPathNs(cost, interrupt_ns_)),
                  .events = static_cast<int64_t>(cost.samples)});
}

void CpuSource::Learn(const Period& period) {
  const int64_t cpu_ns = threads_->cpu_ns();
  knob_.Learn({.seconds = period.seconds,
               .cpu_ns = cpu_ns - std::exchange(learned_cpu_ns_, cpu_ns),
               .cost = context_.kernel->CpuCost(),
               .interrupt_ns = interrupt_ns_});
}

std::optional<LayerState> CpuSource::Status() const {
  LayerState layer = {.name = "cpu", .on = clocks_.cpus() > 0, .note = {}};
  if (detached_) {
    layer.note = kPausedNote;
  } else if (!failed_.ok()) {
    layer.note = std::string(failed_.message());
  } else if (clocks_.interval_ns() == 0) {
    layer.note = kShedNote;
  } else {
    layer.note = absl::StrFormat("%.4g samples per second of CPU time, on %d CPUs",
                                 1e9 / static_cast<double>(clocks_.interval_ns()), clocks_.cpus());
  }
  return layer;
}

}  // namespace profd
