#include "daemon/symbolize/debug_files.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/debug_search.h"

namespace profd {
namespace {

// A search costs some 20 system calls.
constexpr int64_t kFirstDelayNs = 10ll * 1'000'000'000;
constexpr int64_t kLongestDelayNs = 600ll * 1'000'000'000;
// Each may hold an open file.
constexpr size_t kMaxModules = 256;

}  // namespace

DebugFiles::DebugFiles(std::vector<std::string> directories, const Clock* clock,
                       std::string own_root, DebugNeed need)
    : directories_(std::move(directories)),
      clock_(clock),
      own_root_(std::move(own_root)),
      need_(need) {}

uint64_t DebugFiles::Refresh(uint64_t key, const ModuleFile& module) {
  if (!states_.contains(key) && states_.size() >= kMaxModules) DropOldest();
  State& state = states_[key];
  state.used = ++uses_;
  const bool due = clock_->MonotonicNs() >= state.next_ns;
  if (!state.needs_none && !state.fd.ok() && due && module.fd.ok()) Seek(module, state);
  return state.version;
}

void DebugFiles::Seek(const ModuleFile& module, State& state) {
  const absl::StatusOr<symbolize::ElfFile> elf = symbolize::ElfFile::Open(module.fd.get());
  const bool has = elf.ok() && (need_ == DebugNeed::kSymbols ? elf->HasSection(SHT_SYMTAB)
                                                             : symbolize::HasDebugInfo(*elf));
  if (has) {
    state.needs_none = true;
    return;
  }
  // The file was replaced: another one's symbols would be wrong.
  const bool same =
      elf.ok() && (module.identity.build_id.empty() || elf->BuildId() == module.identity.build_id);
  if (same) {
    const symbolize::DebugPlaces places = {.target_root = module.root ? module.root->get() : -1,
                                           .own_root = own_root_,
                                           .directories = directories_};
    if (auto found = symbolize::SearchDebugFile(*elf, module.identity.path, places)) {
      state.fd = std::move(found->fd);
      state.version = ++found_;
      return;
    }
  }
  state.delay_ns = std::clamp(2 * state.delay_ns, kFirstDelayNs, kLongestDelayNs);
  state.next_ns = clock_->MonotonicNs() + state.delay_ns;
}

std::optional<symbolize::DebugFile> DebugFiles::Open(uint64_t key) const {
  const auto it = states_.find(key);
  if (it == states_.end() || !it->second.fd.ok()) return std::nullopt;
  UniqueFd fd(fcntl(it->second.fd.get(), F_DUPFD_CLOEXEC, 3));
  if (!fd.ok()) return std::nullopt;
  absl::StatusOr<symbolize::ElfFile> elf = symbolize::ElfFile::Open(fd.get());
  if (!elf.ok()) return std::nullopt;
  return symbolize::DebugFile{.fd = std::move(fd), .elf = *std::move(elf)};
}

void DebugFiles::DropOldest() {
  const auto oldest =
      std::min_element(states_.begin(), states_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  states_.erase(oldest);
}

}  // namespace profd
