#include "daemon/source/fault.h"

#include <algorithm>
#include <utility>

#include "daemon/source/record.h"

namespace profd {

FaultSource::FaultSource(const SourceContext& context, const ThreadSource* threads)
    : context_(context), threads_(threads), pages_(context.kernel->fault_seed(), context.cpu_use) {}

absl::Status FaultSource::Attach() {
  const double without = ResidentPages::MeasureTouch();
  RETURN_IF_ERROR(context_.kernel->SetFaults(knob_.OneInAt(0)));
  trap_ns_ = std::max(0.0, ResidentPages::MeasureTouch() - without);
  pages_.SetOneIn(knob_.OneInAt(0));
  // Apply turns it on, once there are unwind rules and the ring is read often.
  return context_.kernel->SetFaults(0);
}

void FaultSource::SetTold(bool told) {
  if (told) {
    unsampled_.End();
  } else {
    unsampled_.Begin(pids_, [this](int32_t pid) { return pages_.BytesOf(pid); });
  }
}

void FaultSource::OnProcesses(const std::set<int32_t>& pids) {
  pages_.KeepOnly(pids);
  unsampled_.KeepOnly(pids);
  pids_ = pids;
}

void FaultSource::Detach() {
  detached_ = true;
  SetTold(false);
  pages_.SetOn(false);
  (void)context_.kernel->SetFaults(0);  // cannot fail: it only detaches programs
}

absl::Status FaultSource::Apply() {
  detached_ = false;
  pages_.SetOn(true);
  uint32_t one_in = knob_.OneInAt(knob_.level());
  if (one_in != 0) one_in = std::max(one_in, pages_.LeastOneIn());
  if (one_in != 0) pages_.SetOneIn(one_in);
  SetTold(one_in != 0);
  return context_.kernel->SetFaults(one_in);
}

std::vector<uint32_t> FaultSource::records() const {
  return {PROFD_RECORD_PAGE, PROFD_RECORD_EXEC};
}

absl::Status FaultSource::OnRecord(uint32_t type, std::span<const uint8_t> bytes) {
  if (type == PROFD_RECORD_EXEC) {
    ASSIGN_OR_RETURN(const auto exec, DecodeRecord<profd_exec_record>(bytes));
    pages_.OnExec(exec.pid);
    unsampled_.Forget(exec.pid);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto page, DecodeRecord<profd_page_record>(bytes));
  pages_.OnTouched(page);
  return absl::OkStatus();
}

absl::Status FaultSource::Drain(ProfileDelta& delta) {
  delta.faults_on = context_.kernel->faults_on();
  pages_.Finish(delta);
  unsampled_.Drain(
      delta.end_ns, [this](ThreadId thread) { return threads_->ProcessOf(thread); },
      [this](int32_t pid) { return pages_.BytesOf(pid); }, delta);
  return absl::OkStatus();
}

void FaultSource::Costs(std::vector<CostRow>& rows) const {
  const profd_fault_cost cost = context_.kernel->FaultCost();
  rows.push_back({.account = "fault",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(FaultKnob::InPathNs(cost, trap_ns_)),
                  .events = static_cast<int64_t>(cost.faults)});
}

void FaultSource::Learn(const Period& period) {
  const profd_fault_cost cost = context_.kernel->FaultCost();
  // The kernel's books know of faults that the program does not see while it is off.
  const bool has_books = threads_->has_books();
  const int64_t all = has_books ? threads_->faults() : static_cast<int64_t>(cost.faults);
  const int64_t faults = all - std::exchange(learned_faults_, all);
  if (!has_books && !context_.kernel->faults_on()) {
    knob_.Forget(period.seconds);
    return;
  }
  knob_.Learn({.seconds = period.seconds, .faults = faults, .cost = cost, .trap_ns = trap_ns_});
}

std::optional<LayerState> FaultSource::Status() const {
  LayerState layer = {.name = "faults", .on = context_.kernel->faults_on(), .note = {}};
  if (detached_) {
    layer.note = kPausedNote;
  } else if (!layer.on) {
    layer.note = kShedNote;
  } else {
    layer.note = pages_.note();
  }
  return layer;
}

}  // namespace profd
