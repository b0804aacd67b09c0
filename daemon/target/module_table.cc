#include "daemon/target/module_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace profd {

void ModuleTable::Add(ModuleId id, Module module) { modules_.try_emplace(id, std::move(module)); }

Module* ModuleTable::Find(ModuleId id) {
  const auto it = modules_.find(id);
  return it == modules_.end() ? nullptr : &it->second;
}

const Module* ModuleTable::Find(ModuleId id) const {
  const auto it = modules_.find(id);
  return it == modules_.end() ? nullptr : &it->second;
}

const Module* ModuleTable::Find(WatchId watch) const {
  const auto it = watched_.find(watch);
  return it == watched_.end() ? nullptr : Find(it->second);
}

WatchId ModuleTable::Watch(ModuleId id) {
  Module* module = Find(id);
  if (module == nullptr) return WatchId{};
  auto [known, fresh] = watches_.try_emplace(KeyOf(*module), WatchId{});
  if (fresh && last_watch_ == UINT16_MAX) {
    watches_.erase(known);
    return WatchId{};
  }
  if (fresh) known->second = WatchId{++last_watch_};
  module->watch = known->second;
  watched_[module->watch] = id;
  return module->watch;
}

void ModuleTable::Retire(ModuleId id, int64_t now_ns) {
  Module* module = Find(id);
  if (module == nullptr || module->retired_ns != 0) return;
  module->retired_ns = now_ns;
  retired_.push_back(id);
  if (retired_.size() > limits_.modules) {
    Forget(retired_.front());
    retired_.pop_front();
    ++forgotten_;
  }
  CloseOldest();
}

void ModuleTable::Forget(ModuleId id) {
  const auto it = modules_.find(id);
  const auto watched = watched_.find(it->second.watch);
  // Otherwise the file came back, and its number stands for that one now.
  if (watched != watched_.end() && watched->second == id) {
    watched_.erase(watched);
    watches_.erase(KeyOf(it->second));
  }
  modules_.erase(it);
}

void ModuleTable::KeepOnly(const absl::flat_hash_set<ModuleId>& named, int64_t now_ns) {
  std::erase_if(retired_, [&](ModuleId id) {
    if (named.contains(id) || Find(id)->retired_ns > now_ns - limits_.grace_ns) return false;
    Forget(id);
    return true;
  });
  CloseDeleted();
}

void ModuleTable::CloseOldest() {
  if (retired_.size() <= limits_.open_files) return;
  Find(*(retired_.end() - static_cast<ptrdiff_t>(limits_.open_files) - 1))->fd.reset();
}

void ModuleTable::CloseDeleted() {
  uint64_t bytes = 0;
  for (auto id = retired_.rbegin(); id != retired_.rend(); ++id) {
    Module& module = *Find(*id);
    struct stat st;
    if (!module.fd.ok() || fstat(module.fd.get(), &st) != 0 || st.st_nlink != 0) continue;
    bytes += static_cast<uint64_t>(st.st_blocks) * 512;
    if (bytes > limits_.deleted_bytes) module.fd.reset();
  }
}

std::vector<ModuleState> ModuleTable::States() const {
  std::vector<ModuleState> states;
  states.reserve(live());
  for (const auto& [id, module] : modules_) {
    if (module.retired_ns == 0) states.push_back(module.state);
  }
  return states;
}

}  // namespace profd
