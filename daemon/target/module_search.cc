// Modules: what they hold that probes may stand in.
#include <utility>

#include "daemon/base/log.h"
#include "daemon/target/modules.h"

namespace profd {

void Modules::Search(const profd_module_key& key) {
  const auto id = kernel_->ModuleIdOf(key);
  if (!id.ok()) return;
  {
    absl::MutexLock lock(&mutex_);
    const Module* module = table_.Find(*id);
    if (module == nullptr || module->IsSought()) return;
  }
  const std::optional<ModuleFile> file = Find(*id);
  if (!file || !file->fd.ok()) return;
  const bool allocator = sought_.allocators && SearchAllocator(*id, *file);
  const bool tells = sought_.allocators && SearchOtelMemory(*id, *file);
  const bool libc = sought_.libcs && SearchMapCalls(*id, *file);
  const bool glibc = sought_.glibcs && SearchGlibc(*id, *file);
  if (!allocator && !tells && !libc && !glibc) return;
  WatchId watch{};
  {
    absl::MutexLock lock(&mutex_);
    watch = table_.Watch(*id);
  }
  const absl::Status watched = watch != WatchId{}
                                   ? kernel_->WatchModule(key, watch)
                                   : absl::ResourceExhaustedError("no more modules can get probes");
  if (!watched.ok()) LogWarning(file->identity.path, ": ", watched.ToString());
  absl::MutexLock lock(&mutex_);
  // Last: whoever sees it asks for the processes.
  found_.allocators += allocator || tells ? 1 : 0;
  found_.libcs += libc ? 1 : 0;
  found_.glibcs += glibc ? 1 : 0;
}

bool Modules::SearchAllocator(ModuleId id, const ModuleFile& file) {
  auto allocator = FindJemalloc(file.fd.get(), file.identity.path);
  if (!allocator.ok()) {
    LogDebug("no allocator sought in ", file.identity.path, ": ", allocator.status().ToString());
    return false;
  }
  if (!*allocator) return false;
  absl::MutexLock lock(&mutex_);
  table_.Find(id)->allocator = **std::move(allocator);
  return true;
}

bool Modules::SearchOtelMemory(ModuleId id, const ModuleFile& file) {
  auto otel_memory = FindOtelMemory(file.fd.get());
  if (!otel_memory.ok()) {
    LogDebug("no USDT probes sought in ", file.identity.path, ": ",
             otel_memory.status().ToString());
    return false;
  }
  if (!*otel_memory) return false;
  absl::MutexLock lock(&mutex_);
  table_.Find(id)->otel_memory = **std::move(otel_memory);
  return true;
}

bool Modules::SearchMapCalls(ModuleId id, const ModuleFile& file) {
  auto calls = FindMapCalls(file.fd.get());
  if (!calls.ok()) {
    LogDebug("no libc sought in ", file.identity.path, ": ", calls.status().ToString());
    return false;
  }
  if (calls->empty()) return false;
  absl::MutexLock lock(&mutex_);
  table_.Find(id)->map_calls = *std::move(calls);
  return true;
}

bool Modules::SearchGlibc(ModuleId id, const ModuleFile& file) {
  auto glibc = FindGlibc(file.fd.get());
  if (!glibc.ok()) {
    LogDebug("no malloc sought in ", file.identity.path, ": ", glibc.status().ToString());
    return false;
  }
  if (!*glibc) return false;
  absl::MutexLock lock(&mutex_);
  table_.Find(id)->glibc = **std::move(glibc);
  return true;
}

}  // namespace profd
