// The kernel's table of modules and who maps them, without a kernel.
#ifndef PROFD_TESTS_SUPPORT_FAKE_MODULE_TABLE_H_
#define PROFD_TESTS_SUPPORT_FAKE_MODULE_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bpf/abi.h"
#include "daemon/kernel/kernel.h"

namespace profd {

// Thread-safe, as the kernel's is.
class FakeModuleTable {
 public:
  void SetLimit(size_t limit) { limit_ = limit; }

  void Map(const profd_module_key& key) {
    absl::MutexLock lock(&mutex_);
    mapped_.insert(KeyOf(key));
  }
  void Unmap(const profd_module_key& key) {
    absl::MutexLock lock(&mutex_);
    mapped_.erase(KeyOf(key));
  }
  // A walk comes to the file. `*fresh`: it is to be announced. nullopt: the table is full.
  std::optional<ModuleId> Walk(const profd_module_key& key, bool* fresh) {
    absl::MutexLock lock(&mutex_);
    const auto found = modules_.find(KeyOf(key));
    *fresh = found == modules_.end() && modules_.size() < limit_;
    if (found == modules_.end() && !*fresh) {
      ++full_;
      return std::nullopt;
    }
    Entry& entry = *fresh ? modules_[KeyOf(key)] : found->second;
    if (*fresh) entry.known = {.key = key, .id = ModuleId{++last_id_}};
    entry.known.used = clock_;
    return entry.known.id;
  }
  // Whether a walk finds rules.
  bool HasRules(const profd_module_key& key) const {
    absl::MutexLock lock(&mutex_);
    const auto found = modules_.find(KeyOf(key));
    return found != modules_.end() && found->second.published;
  }

  void UseMapped() {
    absl::MutexLock lock(&mutex_);
    for (const Key& key : mapped_) {
      const auto found = modules_.find(key);
      if (found != modules_.end()) found->second.known.used = clock_;
    }
  }
  std::vector<absl::Status> Publish(std::span<const ModuleRules> rules) {
    absl::MutexLock lock(&mutex_);
    std::vector<absl::Status> results;
    for (const ModuleRules& module : rules) {
      const auto found = modules_.find(KeyOf(module.key));
      results.push_back(found == modules_.end() ? absl::NotFoundError("no such module")
                                                : absl::OkStatus());
      if (found == modules_.end()) continue;
      found->second.published = true;
      found->second.rule_bytes = module.rows.size() * sizeof(profd_rule);
      rule_bytes_ += found->second.rule_bytes;
    }
    return results;
  }
  absl::StatusOr<ModuleId> IdOf(const profd_module_key& key) const {
    absl::MutexLock lock(&mutex_);
    const auto found = modules_.find(KeyOf(key));
    if (found == modules_.end()) return absl::NotFoundError("no such module");
    return found->second.known.id;
  }
  uint32_t Advance() {
    absl::MutexLock lock(&mutex_);
    return ++clock_;
  }
  std::vector<KnownModule> List() const {
    absl::MutexLock lock(&mutex_);
    std::vector<KnownModule> list;
    for (const auto& [key, entry] : modules_) list.push_back(entry.known);
    return list;
  }
  void Remove(std::span<const KnownModule> gone) {
    absl::MutexLock lock(&mutex_);
    for (const KnownModule& known : gone) {
      const auto found = modules_.find(KeyOf(known.key));
      if (found == modules_.end()) continue;
      rule_bytes_ -= found->second.rule_bytes;
      modules_.erase(found);
    }
  }
  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return modules_.size();
  }
  uint64_t rule_bytes() const {
    absl::MutexLock lock(&mutex_);
    return rule_bytes_;
  }
  uint64_t full() const {
    absl::MutexLock lock(&mutex_);
    return full_;
  }

 private:
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;
  static Key KeyOf(const profd_module_key& key) { return {key.ino, key.dev, key.generation}; }
  struct Entry {
    KnownModule known;
    bool published = false;
    uint64_t rule_bytes = 0;
  };

  size_t limit_ = 4095;
  mutable absl::Mutex mutex_;
  std::map<Key, Entry> modules_ ABSL_GUARDED_BY(mutex_);
  std::set<Key> mapped_ ABSL_GUARDED_BY(mutex_);
  uint32_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t clock_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t rule_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t full_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_FAKE_MODULE_TABLE_H_
