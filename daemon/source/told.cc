#include "daemon/source/told.h"

#include <map>

#include "daemon/source/record.h"

namespace profd {

std::vector<uint32_t> ToldSource::records() const { return {PROFD_RECORD_TOLD, PROFD_RECORD_EXEC}; }

absl::Status ToldSource::OnRecord(uint32_t type, std::span<const uint8_t> bytes) {
  if (type == PROFD_RECORD_EXEC) {
    ASSIGN_OR_RETURN(const auto exec, DecodeRecord<profd_exec_record>(bytes));
    heap_.OnExec(exec.pid, context_.clock->MonotonicNs());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto told, DecodeRecord<profd_told_record>(bytes));
  const auto sampling =
      modules_->probes()->OnTold({told.pid, WatchId{static_cast<uint16_t>(told.watch_id)}});
  if (sampling) heap_.Apply(told, *sampling);
  return absl::OkStatus();
}

absl::Status ToldSource::Drain(ProfileDelta& delta) {
  const size_t before = delta.ledgers.size();
  heap_.Finish(delta);
  std::map<int32_t, HeapGrowth> growth;
  for (size_t i = before; i < delta.ledgers.size(); ++i) {
    const ThreadLedger& ledger = delta.ledgers[i];
    HeapGrowth& sum = growth[threads_->ProcessOf(ledger.thread)];
    sum.allocated = WrappingAdd(sum.allocated, ledger.delta.allocated.bytes);
    sum.freed = WrappingAdd(sum.freed, ledger.delta.freed.bytes);
  }
  for (const auto& [pid, sum] : growth) {
    if (pid > 0) context_.memory->AddHeap(pid, sum);  // else not visible in our PID namespace
  }
  return absl::OkStatus();
}

void ToldSource::OnProcesses(const std::set<int32_t>& /*pids*/) {
  heap_.KeepOnly(modules_->probes()->ToldSources());
  heap_.KeepOnlyModules([this](WatchId id) { return modules_->modules().Knows(id); });
}

}  // namespace profd
