// The source `module`: the files that targets run code from, who maps them, and the probes of other
// sources in them.
#ifndef PROFD_DAEMON_SOURCE_MODULE_H_
#define PROFD_DAEMON_SOURCE_MODULE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "daemon/probes/target_probes.h"
#include "daemon/source/context.h"
#include "daemon/source/mapping_looks.h"
#include "daemon/source/source.h"
#include "daemon/target/modules.h"

namespace profd {

// In the list before all sources with probes. Always present, because stacks need modules.
class ModulesSource final : public Source {
 public:
  ModulesSource(const SourceContext& context, SoughtInModules sought, ModuleLimits limits);

  const Modules& modules() const { return modules_; }
  // In allocators and libcs; null: none is sought.
  TargetProbes* probes() { return probes_.get(); }
  const TargetProbes* probes() const { return probes_.get(); }
  // The modules known at the last look.
  const FoundModules& found() const { return looks_.found(); }

  // Begins to read the files that the targets map, those of the processes that used most CPU time
  // first: of all targets, or of the largest where every process is watched. Once, before the first
  // tick.
  absl::Status FindFiles();
  // Waits for the unwind rules and probes of these files, for a limited time and while `go_on` says
  // so. `follow` informs all sources of the targets' processes. False: not all of them are there.
  bool AwaitFiles(absl::FunctionRef<void()> follow, absl::FunctionRef<bool()> go_on);
  // At the end of a drain, before OnProcesses: finds targets that no event announced.
  void Rescan();
  // After OnProcesses: looks up who maps what, if something may be new.
  absl::Status Look();
  // Whether KeepOnly is to be called at this drain.
  bool WantsNamed() const;
  // Forgets modules that are mapped no more, except those that stored stacks name.
  void KeepOnly(const absl::flat_hash_set<ModuleId>& named);
  // CPU time of looks between drains, ns. The rate of drains does not affect it.
  int64_t early_looks_ns() const { return look_cpu_ns_; }

  const char* name() const override { return "module"; }
  void Detach() override;
  absl::Status Apply() override;
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  absl::Status Drain(ProfileDelta& delta) override;
  void OnProcesses(const std::set<int32_t>& pids) override;
  // Looks early if probes may wait for it.
  void Step() override;
  void Costs(std::vector<CostRow>& rows) const override;

 private:
  bool PutsProbes() const { return sought_.any(); }
  // Goes through the memory maps of the targets.
  absl::Status AnnounceMappings();
  // Through those of all that FindFree found.
  absl::Status Announce(std::span<const int32_t> free);
  // All targets but those whose map stays locked: a thread that the kernel, or a file system, never
  // lets go on would hold us, too.
  absl::StatusOr<std::vector<int32_t>> FindFree();
  // Lists all targets, and which of them had their map locked at each of several looks.
  absl::Status FindLocked(std::set<int32_t>& all, std::set<int32_t>& locked);
  void OnExec(const profd_exec_record& exec);
  void LookEarly();
  // Has modules that nobody maps taken out of the kernel's table if it is nearly full.
  void MakeRoom();
  // Looks between drains. False if that failed, or left a process out.
  bool LookNow();

  const SourceContext context_;
  const SoughtInModules sought_;
  Modules modules_;
  std::unique_ptr<TargetProbes> probes_;
  MappingLooks looks_;
  std::set<int32_t> processes_;  // of the targets at the last drain
  absl::Status failed_;          // error between drains
  std::set<int32_t> locked_;     // left out at the last look
  bool detached_ = false;
  int64_t look_cpu_ns_ = 0;
  int64_t drained_ns_ = 0;
  int64_t next_rescan_ns_ = 0;
  int64_t next_room_ns_ = 0;
  int64_t room_pause_ns_ = 0;
  int64_t next_keep_ns_ = 0;
  uint64_t unreadable_ = 0;  // at the last drain
  uint64_t over_limit_ = 0;
  uint64_t forgotten_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MODULE_H_
