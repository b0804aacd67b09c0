// Modules and their unwind rules.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "bpf/abi/rule_table.h"
#include "bpf/profd.skel.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/tables.h"
#include "daemon/unwind/rule_table.h"

namespace profd {
namespace {

// How long a removed table is kept. A walk uses one for microseconds.
constexpr int64_t kKeepRemovedNs = 10'000'000'000;

// A table of these words, which gets the module's id; an empty fd for none.
absl::StatusOr<UniqueFd> MakeRuleTable(ModuleId id, std::span<const uint64_t> words) {
  if (words.empty()) return UniqueFd();
  LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
  UniqueFd table(bpf_map_create(BPF_MAP_TYPE_ARRAY, "profd_rules", sizeof(uint32_t),
                                sizeof(uint64_t), static_cast<uint32_t>(words.size()), &options));
  if (!table.ok()) return ErrnoStatus("create a rule table", errno);
  void* memory =
      mmap(nullptr, words.size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, table.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus("map a rule table", errno);
  std::memcpy(memory, words.data(), words.size_bytes());
  static_cast<profd_rule_head*>(memory)->module_id = static_cast<uint32_t>(id);
  munmap(memory, words.size_bytes());
  return table;
}

// Changes the entry of a module.
absl::Status ChangeModule(int modules, const profd_module_key& key,
                          absl::FunctionRef<void(profd_module&)> change) {
  profd_module module{};
  if (bpf_map_lookup_elem(modules, &key, &module) != 0) {
    return ErrnoStatus("look up a module", errno);
  }
  if (module.module_id == 0) return absl::UnavailableError("the module's entry is being made");
  change(module);
  module.check = profd_module_check(&key, module.module_id, module.state);
  if (bpf_map_update_elem(modules, &key, &module, BPF_EXIST) != 0) {
    return ErrnoStatus("change a module", errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModuleId> BpfKernel::ModuleIdOf(const profd_module_key& key) const {
  profd_module module{};
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.modules), &key, &module) != 0) {
    return ErrnoStatus("look up a module", errno);
  }
  if (module.module_id == 0) return absl::UnavailableError("the module's entry is being made");
  return ModuleId{module.module_id};
}

std::vector<absl::Status> BpfKernel::PublishRules(std::span<const ModuleRules> modules) {
  std::vector<absl::Status> results(modules.size());
  std::vector<UniqueFd> tables(modules.size());
  std::vector<ModuleId> of(modules.size());
  std::vector<uint64_t> bytes(modules.size());
  std::vector<uint32_t> ids;
  std::vector<int> fds;
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto id = ModuleIdOf(modules[i].key);
    results[i] = id.status();
    if (!id.ok()) continue;
    of[i] = *id;
    const std::vector<uint64_t> words = PackRules(modules[i].rows);
    auto table = MakeRuleTable(*id, words);
    results[i] = table.status();
    if (!table.ok() || !table->ok()) continue;
    tables[i] = *std::move(table);
    bytes[i] = words.size() * sizeof(words[0]);
    ids.push_back(static_cast<uint32_t>(*id));
    fds.push_back(tables[i].get());
  }
  auto count = static_cast<uint32_t>(ids.size());
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  if (count != 0 && bpf_map_update_batch(bpf_map__fd(skeleton_->maps.rule_tables), ids.data(),
                                         fds.data(), &count, &options) != 0) {
    const absl::Status failed = ErrnoStatus("publish rule tables", errno);
    for (size_t i = 0; i < modules.size(); ++i) {
      if (tables[i].ok()) results[i] = failed;
    }
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!results[i].ok()) continue;
    const bool has_rows = tables[i].ok();
    if (has_rows) {
      rule_bytes_ += bytes[i];
      rule_tables_[of[i]] = {.fd = std::move(tables[i]), .bytes = bytes[i]};
    }
    // Last: the state makes the rows visible.
    results[i] = ChangeModule(
        bpf_map__fd(skeleton_->maps.modules), modules[i].key, [&](profd_module& module) {
          module.announced = 1;
          module.state = has_rows ? PROFD_MODULE_READY : PROFD_MODULE_NO_RULES;
        });
  }
  return results;
}

absl::Status BpfKernel::WatchModule(const profd_module_key& key, WatchId watch) {
  return ChangeModule(bpf_map__fd(skeleton_->maps.modules), key,
                      [&](profd_module& module) { module.watch = static_cast<uint32_t>(watch); });
}

absl::Status BpfKernel::ForgetModule(const profd_module_key& key) {
  const absl::Status status = ChangeModule(bpf_map__fd(skeleton_->maps.modules), key,
                                           [](profd_module& module) { module.announced = 0; });
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

uint32_t BpfKernel::AdvanceModuleClock() {
  return __atomic_add_fetch(&skeleton_->bss->module_clock, 1, __ATOMIC_RELAXED);
}

size_t BpfKernel::ModulesInUse() const {
  return __atomic_load_n(&skeleton_->bss->modules_in_use, __ATOMIC_RELAXED);
}

absl::StatusOr<std::vector<KnownModule>> BpfKernel::ListModules() const {
  const bpf_map* map = skeleton_->maps.modules;
  ASSIGN_OR_RETURN(const auto entries, (ReadTable<profd_module_key, profd_module>(
                                           bpf_map__fd(map), bpf_map__max_entries(map))));
  std::vector<KnownModule> modules;
  modules.reserve(entries.size());
  for (const auto& [key, module] : entries) {
    // It is being made; nobody else may touch it.
    if (module.module_id == 0) continue;
    modules.push_back({.key = key, .id = ModuleId{module.module_id}, .used = module.used});
  }
  return modules;
}

void BpfKernel::RemoveModules(std::span<const KnownModule> modules) {
  const int64_t now = MonotonicNs();
  while (!removed_tables_.empty() && removed_tables_.front().first < now - kKeepRemovedNs) {
    removed_tables_.pop_front();
  }
  if (modules.empty()) return;
  std::vector<uint32_t> ids;
  for (const KnownModule& module : modules) {
    if (bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.modules), &module.key) != 0) continue;
    __atomic_sub_fetch(&skeleton_->bss->modules_in_use, 1, __ATOMIC_RELAXED);
    if (rule_tables_.contains(module.id)) ids.push_back(static_cast<uint32_t>(module.id));
  }
  // After the entries: what walks find from here on is new. Before the tables: no walk that begins
  // later looks for them.
  __atomic_add_fetch(&skeleton_->bss->module_epoch, 1, __ATOMIC_SEQ_CST);
  auto count = static_cast<uint32_t>(ids.size());
  if (count == 0) return;
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  // In one call: the kernel waits for running programs at the end of each.
  if (bpf_map_delete_batch(bpf_map__fd(skeleton_->maps.rule_tables), ids.data(), &count,
                           &options) != 0) {
    LogError("remove rule tables: ", count, " of ", ids.size(), " done: ", std::strerror(errno));
  }
  for (const uint32_t id : ids) {
    auto table = rule_tables_.extract(ModuleId{id});
    rule_bytes_ -= table.mapped().bytes;
    removed_tables_.emplace_back(now, std::move(table.mapped().fd));
  }
}

}  // namespace profd
