// The source `memory`: the memory of processes, read from /proc.
#ifndef PROFD_DAEMON_SOURCE_MEMORY_H_
#define PROFD_DAEMON_SOURCE_MEMORY_H_

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/record.h"
#include "daemon/source/source.h"

namespace profd {

// Last in the list, so that data of other sources in a drain still counts for the program before an
// exec.
class MemorySource final : public Source {
 public:
  explicit MemorySource(const SourceContext& context) : context_(context) {}

  const char* name() const override { return "memory"; }
  void Detach() override {
    detached_ = true;
    context_.memory->SetOn(false);
  }
  absl::Status Apply() override {
    if (std::exchange(detached_, false)) context_.memory->SetOn(true);
    return absl::OkStatus();
  }
  std::vector<uint32_t> records() const override { return {PROFD_RECORD_EXEC}; }
  absl::Status OnRecord(uint32_t /*type*/, std::span<const uint8_t> bytes) override {
    ASSIGN_OR_RETURN(const auto exec, DecodeRecord<profd_exec_record>(bytes));
    execed_.insert(exec.pid);
    return absl::OkStatus();
  }
  absl::Status Drain(ProfileDelta& /*delta*/) override {
    for (const int32_t pid : std::exchange(execed_, {})) context_.memory->OnExec(pid);
    return absl::OkStatus();
  }
  void OnProcesses(const std::set<int32_t>& pids) override { context_.memory->KeepOnly(pids); }
  void Costs(std::vector<CostRow>& rows) const override {
    rows.push_back({.account = "memory", .payer = Payer::kDaemon, .ns = context_.cpu_use->memory});
  }

 private:
  const SourceContext context_;
  bool detached_ = false;
  std::set<int32_t> execed_;  // PIDs, since the last drain
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MEMORY_H_
