#include "tests/system/harness/kernel_state.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/status.h"

namespace profd::e2e {
namespace {

absl::StatusOr<bpf_map_info> InfoOf(int map) {
  bpf_map_info info = {};
  uint32_t size = sizeof(info);
  if (bpf_obj_get_info_by_fd(map, &info, &size) != 0) return ErrnoStatus("look at a map", errno);
  return info;
}

// Calls `visit` with each map that the process has open until it says true.
bool AnyMapOf(int pid, const std::function<bool(UniqueFd&, const bpf_map_info&)>& visit) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fdinfo"), error)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("map_id:")) continue;
      UniqueFd map(bpf_map_get_fd_by_id(static_cast<uint32_t>(std::stoul(line.substr(7)))));
      if (!map.ok()) continue;
      const auto info = InfoOf(map.get());
      if (info.ok() && visit(map, *info)) return true;
    }
  }
  return false;
}

struct Place {
  uint32_t offset = 0, size = 0;
};

// Where in a data section's map a variable is.
absl::StatusOr<Place> FindVariable(const bpf_map_info& info, const std::string& variable) {
  const std::unique_ptr<btf, void (*)(btf*)> types(btf__load_from_kernel_by_id(info.btf_id),
                                                   btf__free);
  if (!types) return ErrnoStatus("read a map's types", errno);
  const btf_type* section = btf__type_by_id(types.get(), info.btf_value_type_id);
  if (section == nullptr || !btf_is_datasec(section)) return absl::NotFoundError("no section");
  const btf_var_secinfo* entry = btf_var_secinfos(section);
  for (int i = 0; i < btf_vlen(section); ++i, ++entry) {
    const btf_type* type = btf__type_by_id(types.get(), entry->type);
    if (variable == btf__name_by_offset(types.get(), type->name_off)) {
      return Place{.offset = entry->offset, .size = entry->size};
    }
  }
  return absl::NotFoundError(absl::StrCat("no variable ", variable));
}

}  // namespace

absl::StatusOr<UniqueFd> OpenMapOf(int pid, const std::string& name) {
  UniqueFd found;
  AnyMapOf(pid, [&](UniqueFd& map, const bpf_map_info& info) {
    if (name != info.name) return false;
    found = std::move(map);
    return true;
  });
  if (!found.ok()) return absl::NotFoundError(absl::StrCat("process ", pid, " has no map ", name));
  return found;
}

absl::StatusOr<std::unique_ptr<KernelWords>> KernelWords::Open(int pid,
                                                               const std::string& variable) {
  std::unique_ptr<KernelWords> words(new KernelWords);
  absl::Status status = absl::NotFoundError(absl::StrCat("no variable ", variable));
  AnyMapOf(pid, [&](UniqueFd& map, const bpf_map_info& info) {
    if (!std::string(info.name).ends_with(".bss")) return false;
    const auto place = FindVariable(info, variable);
    if (!place.ok()) return false;
    words->size_ = info.value_size;
    words->memory_ =
        mmap(nullptr, info.value_size, PROT_READ | PROT_WRITE, MAP_SHARED, map.get(), 0);
    if (words->memory_ == MAP_FAILED) {
      words->memory_ = nullptr;
      status = ErrnoStatus("map a section", errno);
      return true;
    }
    words->words_ = {
        reinterpret_cast<uint32_t*>(static_cast<char*>(words->memory_) + place->offset),
        place->size / sizeof(uint32_t)};
    status = absl::OkStatus();
    return true;
  });
  RETURN_IF_ERROR(status);
  return words;
}

KernelWords::~KernelWords() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

absl::Status ChangeAccount(const UniqueFd& threads, int pid,
                           const std::function<void(profd_thread&)>& change) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.ok()) return ErrnoStatus("open a process", errno);
  const int key = pidfd.get();
  profd_thread account = {};
  if (bpf_map_lookup_elem(threads.get(), &key, &account) != 0) {
    return ErrnoStatus("read an account", errno);
  }
  change(account);
  if (bpf_map_update_elem(threads.get(), &key, &account, BPF_EXIST) != 0) {
    return ErrnoStatus("change an account", errno);
  }
  return absl::OkStatus();
}

}  // namespace profd::e2e
