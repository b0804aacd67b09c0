// What is known of modules: those in the kernel's table, and those that were taken out of it but
// are still named by stored stacks.
#ifndef PROFD_DAEMON_TARGET_MODULE_TABLE_H_
#define PROFD_DAEMON_TARGET_MODULE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "bpf/abi.h"
#include "daemon/base/fd.h"
#include "daemon/heap/glibc.h"
#include "daemon/heap/jemalloc.h"
#include "daemon/heap/map_calls.h"
#include "daemon/heap/usdt.h"
#include "daemon/profile/profile.h"
#include "daemon/symbolize/module_source.h"
#include "daemon/target/file_version.h"

namespace profd {

struct Module {
  profd_module_key key{};
  ModuleState state;
  UniqueFd fd;
  std::shared_ptr<const UniqueFd> root;
  std::optional<FileVersion> version;  // of the file before it was read
  WatchId watch{};
  std::optional<JemallocInfo> allocator;
  std::vector<MapCall> map_calls;
  std::optional<OtelMemory> otel_memory;
  std::optional<GlibcInfo> glibc;
  bool unreadable = false;
  uint64_t left_out_bytes = 0;  // of its rules, which had no room
  int64_t retired_ns = 0;       // monotonic; 0: it is in the kernel's table

  // Holds what probes may stand in.
  bool IsSought() const { return allocator || otel_memory || !map_calls.empty() || glibc; }
};

// How much is kept of modules that were retired.
struct RetiredLimits {
  size_t modules = 16'384;
  size_t open_files = 1'024;            // the others are opened again by their paths
  uint64_t deleted_bytes = 1ull << 30;  // on disk, of files that nothing but profd holds
  int64_t grace_ns = 120'000'000'000;   // so long stacks with it may still arrive
};

// Not thread-safe. Ids are never used again.
class ModuleTable {
 public:
  explicit ModuleTable(RetiredLimits limits = {}) : limits_(limits) {}

  // A module that came into the kernel's table.
  void Add(ModuleId id, Module module);
  // Null if it is not known.
  Module* Find(ModuleId id);
  const Module* Find(ModuleId id) const;
  const Module* Find(WatchId watch) const;
  // The number by which probes name a module: the same for a file that was retired and came back.
  // 0 when all are used up.
  WatchId Watch(ModuleId id);

  // It was taken out of the kernel's table.
  void Retire(ModuleId id, int64_t now_ns);
  // Forgets retired modules that are not `named`, except the latest, and closes what is too much.
  void KeepOnly(const absl::flat_hash_set<ModuleId>& named, int64_t now_ns);

  size_t live() const { return modules_.size() - retired_.size(); }
  size_t retired() const { return retired_.size(); }
  // Retired modules that were forgotten for want of room, though stacks may name them.
  uint64_t forgotten() const { return forgotten_; }
  // Of those in the kernel's table, in no order.
  std::vector<ModuleState> States() const;

 private:
  using FileKey = std::tuple<uint64_t, uint32_t, uint32_t>;
  static FileKey KeyOf(const Module& module) {
    return {module.key.ino, module.key.dev, module.key.generation};
  }
  void Forget(ModuleId id);
  void CloseOldest();
  void CloseDeleted();

  const RetiredLimits limits_;
  absl::flat_hash_map<ModuleId, Module> modules_;
  std::deque<ModuleId> retired_;  // the oldest first
  absl::flat_hash_map<WatchId, ModuleId> watched_;
  absl::flat_hash_map<FileKey, WatchId> watches_;
  uint16_t last_watch_ = 0;
  uint64_t forgotten_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_MODULE_TABLE_H_
