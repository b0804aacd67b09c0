// The files that targets run code from: their identity, their unwind rules, the allocator in them,
// a handle for symbols.
#ifndef PROFD_DAEMON_TARGET_MODULES_H_
#define PROFD_DAEMON_TARGET_MODULES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "bpf/abi.h"
#include "daemon/base/cpu_use.h"
#include "daemon/base/limits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/target/module_table.h"
#include "daemon/target/root_directories.h"

namespace profd {

// What to search for in modules, in addition to unwind rules.
struct SoughtInModules {
  bool allocators = false;
  bool libcs = false;   // with calls that change an address space
  bool glibcs = false;  // with a malloc that is traced in bursts

  bool any() const { return allocators || libcs || glibcs; }
};

// Number of modules in which that was found, since the start.
struct FoundModules {
  size_t allocators = 0;
  size_t libcs = 0;
  size_t glibcs = 0;

  size_t all() const { return allocators + libcs + glibcs; }
  friend bool operator==(const FoundModules&, const FoundModules&) = default;
};

struct ModuleLimits {
  uint64_t modules = Limits{}.modules;   // in the kernel's table, at one time
  uint64_t rule_bytes = Limits{}.rules;  // of all rule tables together
  RetiredLimits retired;
};

// Thread-safe. Compiles rules on a thread of its own, so that no tick waits for it.
//
// A module gets its id when the kernel sees its file first. When the kernel's table is nearly full,
// MakeRoom takes out modules that no target maps. They are kept here for as long as stored stacks
// name them.
class Modules : public ModuleSource {
 public:
  // `kernel` and `cpu_use` must outlive this.
  Modules(ModuleKernel* kernel, CpuUse* cpu_use, ModuleLimits limits, SoughtInModules sought);
  ~Modules() override;

  // A mapping whose file has no rules yet.
  void OnAnnounced(const profd_module_record& record);

  // Waits until everything announced so far is published. False if it is not after `patience_ns`.
  bool WaitIdle(int64_t patience_ns);
  // Some are being read, or wait for that.
  bool IsReading() const;

  // The kernel's tables of modules and of rules have little room left, or had none for some.
  bool IsCrowded() const;
  // Takes modules out of the kernel's table, on this object's thread, that were not used since
  // `unused_since` on the kernel's clock: until there is room again, those first that were not used
  // for the longest. All mappings of all targets must have been announced since.
  void MakeRoom(uint32_t unused_since);
  // Forgets modules that were taken out, except those that stored stacks name.
  void KeepOnly(const absl::flat_hash_set<ModuleId>& named);

  std::optional<ModuleFile> Find(ModuleId id) const override;
  // The file to put probes into. NotFound when it is unknown or not open; FailedPrecondition when
  // it was written since it was read: in other code the places for probes may lie inside of
  // instructions.
  absl::StatusOr<UniqueFd> FileToProbe(WatchId id) const;
  // Not forgotten yet.
  bool Knows(WatchId id) const;
  std::optional<ModuleIdentity> IdentityOf(WatchId id) const;
  // The allocator that a module holds.
  std::optional<JemallocInfo> AllocatorIn(WatchId id) const;
  // The probes by which a module tells of the objects that it samples.
  std::optional<OtelMemory> OtelMemoryIn(WatchId id) const;
  // The calls that change an address space, of a libc; empty for another module.
  std::vector<MapCall> MapCallsIn(WatchId id) const;
  // The same of glibc's malloc.
  std::optional<GlibcInfo> GlibcIn(WatchId id) const;
  FoundModules found() const;

  // Of those in the kernel's table.
  std::vector<ModuleState> States() const;
  ModuleUse Use() const;
  uint64_t unreadable() const;  // modules whose file could not be read or understood
  uint64_t over_limit() const;  // modules left out to keep the limit of rules
  uint64_t forgotten() const;   // modules that stored stacks may name, for want of room

 private:
  // Modules to be published together; the vectors go in step.
  struct Batch {
    std::vector<ModuleId> ids;
    std::vector<Module> modules;
    std::vector<ModuleRules> rules;
    size_t rows = 0;  // of all
  };

  void Work();
  void Compile(const profd_module_record& record, Batch& batch);
  // Looks for what probes may stand in, in a module that was published.
  void Search(const profd_module_key& key);
  // True when there is one.
  bool SearchAllocator(ModuleId id, const ModuleFile& file);
  bool SearchOtelMemory(ModuleId id, const ModuleFile& file);
  bool SearchMapCalls(ModuleId id, const ModuleFile& file);
  bool SearchGlibc(ModuleId id, const ModuleFile& file);
  void Publish(Batch batch);
  // Opens and compiles. `rows` stays empty, with a note, when there are none to be had.
  absl::StatusOr<Module> Load(const profd_module_record& record, std::vector<profd_rule>& rows);
  // Bytes of the rules that a module would get if there were room.
  uint64_t WantedBytes(const Module& module) const {
    return module.left_out_bytes <= limits_.rule_bytes ? module.left_out_bytes : 0;
  }
  void Retire(uint32_t unused_since);
  std::vector<KnownModule> ChooseUnused(const std::vector<KnownModule>& listed,
                                        uint32_t unused_since) const;
  // What `get` finds in a module; empty for an unknown one.
  template <typename Getter>
  auto Get(WatchId id, Getter get) const {
    absl::MutexLock lock(&mutex_);
    const Module* module = table_.Find(id);
    return module == nullptr ? decltype(get(*module))() : get(*module);
  }

  ModuleKernel* const kernel_;
  CpuUse* const cpu_use_;
  const ModuleLimits limits_;
  const SoughtInModules sought_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<profd_module_record> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint32_t> unused_since_ ABSL_GUARDED_BY(mutex_);  // of MakeRoom
  ModuleTable table_ ABSL_GUARDED_BY(mutex_);
  FoundModules found_ ABSL_GUARDED_BY(mutex_);
  uint64_t wanted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of rules that had no room
  uint64_t unreadable_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t over_limit_ ABSL_GUARDED_BY(mutex_) = 0;
  RootDirectories roots_;  // of the worker alone
  std::thread worker_;     // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_MODULES_H_
