// Modules and their unwind rules.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/kernel/bpf_kernel.h"

namespace profd {
namespace {

// A table with these rows; an empty fd for none.
absl::StatusOr<UniqueFd> MakeRuleTable(std::span<const profd_rule> rows) {
  if (rows.empty()) return UniqueFd();
  LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
  UniqueFd table(bpf_map_create(BPF_MAP_TYPE_ARRAY, "profd_rules", sizeof(uint32_t),
                                sizeof(profd_rule), static_cast<uint32_t>(rows.size()), &options));
  if (!table.ok()) return ErrnoStatus("create a rule table", errno);
  void* memory =
      mmap(nullptr, rows.size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, table.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus("map a rule table", errno);
  std::memcpy(memory, rows.data(), rows.size_bytes());
  munmap(memory, rows.size_bytes());
  return table;
}

}  // namespace

absl::StatusOr<uint32_t> BpfKernel::ModuleIdOf(const profd_module_key& key) const {
  profd_module module{};
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.modules), &key, &module) != 0) {
    return ErrnoStatus("look up a module", errno);
  }
  return module.module_id;
}

std::vector<absl::Status> BpfKernel::PublishRules(std::span<const ModuleRules> modules) {
  std::vector<absl::Status> results(modules.size());
  std::vector<profd_module> states(modules.size());
  std::vector<UniqueFd> tables(modules.size());
  std::vector<uint32_t> ids;
  std::vector<int> fds;
  const int by_file = bpf_map__fd(skeleton_->maps.modules);
  for (size_t i = 0; i < modules.size(); ++i) {
    if (bpf_map_lookup_elem(by_file, &modules[i].key, &states[i]) != 0) {
      results[i] = ErrnoStatus("look up a module", errno);
      continue;
    }
    auto table = MakeRuleTable(modules[i].rows);
    results[i] = table.status();
    if (!table.ok() || !table->ok()) continue;
    tables[i] = *std::move(table);
    ids.push_back(states[i].module_id);
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
    states[i].announced = 1;
    states[i].state = has_rows ? PROFD_MODULE_READY : PROFD_MODULE_NO_RULES;
    states[i].rows = static_cast<uint32_t>(modules[i].rows.size());
    if (has_rows) {
      rule_bytes_ += modules[i].rows.size() * sizeof(profd_rule);
      rule_tables_.push_back(std::move(tables[i]));
    }
    // Last: the state makes the rows visible.
    if (bpf_map_update_elem(by_file, &modules[i].key, &states[i], BPF_EXIST) != 0) {
      results[i] = ErrnoStatus("publish a module", errno);
    }
  }
  return results;
}

absl::Status BpfKernel::WatchModule(const profd_module_key& key) {
  const int modules = bpf_map__fd(skeleton_->maps.modules);
  profd_module module{};
  if (bpf_map_lookup_elem(modules, &key, &module) != 0) {
    return ErrnoStatus("look up a module", errno);
  }
  module.watched = 1;
  if (bpf_map_update_elem(modules, &key, &module, BPF_EXIST) != 0) {
    return ErrnoStatus("watch a module", errno);
  }
  return absl::OkStatus();
}

absl::Status BpfKernel::ForgetModule(const profd_module_key& key) {
  const int modules = bpf_map__fd(skeleton_->maps.modules);
  profd_module module{};
  if (bpf_map_lookup_elem(modules, &key, &module) != 0) return absl::OkStatus();
  module.announced = 0;
  if (bpf_map_update_elem(modules, &key, &module, BPF_EXIST) != 0) {
    return ErrnoStatus("forget a module", errno);
  }
  return absl::OkStatus();
}

}  // namespace profd
