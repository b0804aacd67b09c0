#include "daemon/symbolize/module_codes.h"

#include <utility>

namespace profd::symbolize {
namespace {

constexpr size_t kMaxModules = 1024;

}  // namespace

std::shared_ptr<const ModuleCode> ModuleCodes::Of(uint64_t key, int fd, const std::string& build_id,
                                                  uint64_t* bytes_left) {
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const absl::StatusOr<ElfFile> elf = ElfFile::Open(fd);
  if (!elf.ok() || (!build_id.empty() && elf->BuildId() != build_id)) return nullptr;
  ModuleCode code;
  code.segments = CodeSegmentsOf(*elf);
  const uint64_t had = *bytes_left;
  code.id = CodeIdOf(*elf, bytes_left);
  auto shared = std::make_shared<const ModuleCode>(std::move(code));
  // An answer that began with less than the whole allowance does not decide for the next one.
  if (shared->id.empty() && *bytes_left == had) return shared;
  if (known_.size() >= kMaxModules) known_.clear();
  known_.emplace(key, shared);
  return shared;
}

}  // namespace profd::symbolize
