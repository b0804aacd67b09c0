// The files that targets run code from: their identity, their unwind rules, the allocator in them,
// a handle for symbols.
#ifndef PROFD_DAEMON_TARGET_MODULES_H_
#define PROFD_DAEMON_TARGET_MODULES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "bpf/abi.h"
#include "daemon/base/cpu_use.h"
#include "daemon/heap/glibc.h"
#include "daemon/heap/jemalloc.h"
#include "daemon/heap/map_calls.h"
#include "daemon/heap/usdt.h"
#include "daemon/kernel/kernel.h"
#include "daemon/profile/profile.h"
#include "daemon/symbolize/module_source.h"
#include "daemon/target/root_directories.h"

namespace profd {

// Thread-safe. Compiles rules on a thread of its own, so that no tick waits for it.
class Modules : public ModuleSource {
 public:
  // `kernel` and `cpu_use` must outlive this. `rule_limit` bounds the bytes of all rule tables
  // together.
  // With `allocators` every module is searched for one, with `map_calls` for the calls of a libc,
  // with `glibc` for glibc's malloc.
  Modules(Kernel* kernel, CpuUse* cpu_use, uint64_t rule_limit, bool allocators, bool map_calls,
          bool glibc);
  ~Modules() override;

  // A mapping whose file has no rules yet.
  void OnAnnounced(const profd_module_record& record);

  // Waits until everything announced so far is published, or `deadline_ns` (monotonic).
  void WaitIdle(int64_t deadline_ns);
  // Some are being read, or wait for that.
  bool IsReading() const;

  std::optional<ModuleFile> Find(ModuleId id) const override;
  // The same, to put probes into. NotFound when the file is unknown or not open; FailedPrecondition
  // when it was written since it was read: in other code the places for probes may lie inside of
  // instructions.
  absl::StatusOr<UniqueFd> FileToProbe(ModuleId id) const;
  std::optional<ModuleIdentity> IdentityOf(ModuleId id) const;
  // The allocator that a module holds.
  std::optional<JemallocInfo> AllocatorIn(ModuleId id) const;
  // The probes by which a module tells of the objects that it samples.
  std::optional<OtelMemory> OtelMemoryIn(ModuleId id) const;
  // How many modules hold either.
  size_t allocators() const;
  // The calls that change an address space, of a libc; empty for another module.
  std::vector<MapCall> MapCallsIn(ModuleId id) const;
  // How many modules hold such calls.
  size_t libcs() const;
  // The same of glibc's malloc.
  std::optional<GlibcInfo> GlibcIn(ModuleId id) const;
  size_t glibcs() const;

  std::vector<ModuleState> States() const;
  size_t Count() const;
  uint64_t unreadable() const;  // modules whose file could not be read or understood
  uint64_t over_limit() const;  // modules left out to keep the limit

 private:
  struct Module {
    ModuleState state;
    UniqueFd fd;
    std::shared_ptr<const UniqueFd> root;
    int64_t written_ns = 0;  // when the file was last written, before it was read
    std::optional<JemallocInfo> allocator;
    std::vector<MapCall> map_calls;
    std::optional<OtelMemory> otel_memory;
    std::optional<GlibcInfo> glibc;
    bool unreadable = false;
    bool over_limit = false;
  };
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

  Kernel* const kernel_;
  CpuUse* const cpu_use_;
  const uint64_t rule_limit_;
  const bool search_allocators_;
  const bool search_map_calls_;
  const bool search_glibc_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<profd_module_record> queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ModuleId, Module> modules_ ABSL_GUARDED_BY(mutex_);
  size_t allocators_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t libcs_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t glibcs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unreadable_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t over_limit_ ABSL_GUARDED_BY(mutex_) = 0;
  RootDirectories roots_;  // of the worker alone
  std::thread worker_;     // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_MODULES_H_
