#include "daemon/symbolize/symbolizer.h"

#include <fcntl.h>
#include <sys/auxv.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/symbol_name.h"

namespace profd {
namespace {

using symbolize::ElfFile;

constexpr std::string_view kVdso = "[vdso]";
constexpr uint64_t kVdsoBytes = 64 << 10;

// The vDSO has no file, but the kernel maps the same one into every process, including this one.
absl::StatusOr<ElfFile> OpenOwnVdso(UniqueFd* memory) {
  const unsigned long base = getauxval(AT_SYSINFO_EHDR);
  if (base == 0) return absl::NotFoundError("no vDSO is mapped");
  ASSIGN_OR_RETURN(*memory, OpenReadOnly("/proc/self/mem"));
  return ElfFile::OpenImage(memory->get(), base, kVdsoBytes);
}

// One raw name per offset; "" if unknown.
std::vector<std::string> FindNames(const ElfFile& elf, const ModuleIdentity& identity,
                                   const std::vector<uint64_t>& offsets) {
  std::vector<std::string> names(offsets.size());
  const std::string build_id = elf.BuildId();
  // The file was replaced, so its symbols could be wrong for the old code.
  if (!identity.build_id.empty() && build_id != identity.build_id) return names;

  std::vector<std::pair<uint64_t, size_t>> wanted;  // address, index of its offset
  for (size_t i = 0; i < offsets.size(); ++i) {
    const std::optional<uint64_t> vaddr = elf.VaddrOfOffset(offsets[i]);
    if (vaddr) wanted.emplace_back(*vaddr, i);
  }
  std::sort(wanted.begin(), wanted.end());
  std::vector<uint64_t> addresses;
  for (const auto& [address, index] : wanted) {
    if (addresses.empty() || addresses.back() != address) addresses.push_back(address);
  }
  if (addresses.empty()) return names;

  symbolize::SymbolLookup lookup(addresses);
  std::optional<symbolize::DebugFile> debug;
  if (!lookup.AddTables(elf)) {
    debug = symbolize::OpenDebugFile(elf, build_id, identity.path);
    if (debug) lookup.AddTables(debug->elf);
  }
  const std::vector<std::string> found = lookup.Names();
  for (const auto& [address, index] : wanted) {
    const auto at = std::lower_bound(addresses.begin(), addresses.end(), address);
    names[index] = found[static_cast<size_t>(at - addresses.begin())];
  }
  return names;
}

}  // namespace

absl::StatusOr<std::string> ReadBuildId(int fd) {
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd));
  return elf.BuildId();
}

std::vector<Symbol> SymbolizeModule(int fd, const ModuleIdentity& identity,
                                    std::span<const uint64_t> offsets) {
  std::vector<uint64_t> unique(offsets.begin(), offsets.end());
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());

  UniqueFd memory;
  const absl::StatusOr<ElfFile> elf =
      fd < 0 && identity.path == kVdso ? OpenOwnVdso(&memory) : ElfFile::Open(fd);
  std::vector<std::string> names(unique.size());
  if (elf.ok()) names = FindNames(*elf, identity, unique);

  const std::string module = symbolize::ModuleName(identity.path);
  for (size_t i = 0; i < unique.size(); ++i) {
    names[i] = names[i].empty() ? symbolize::ModuleOffset(module, unique[i])
                                : symbolize::Printable(Demangle(names[i]));
  }
  std::vector<Symbol> symbols;
  symbols.reserve(offsets.size());
  for (const uint64_t offset : offsets) {
    const auto at = std::lower_bound(unique.begin(), unique.end(), offset);
    const std::string& name = names[static_cast<size_t>(at - unique.begin())];
    symbols.push_back({.function = name, .kind = ClassifyFrame(identity.path, name)});
  }
  return symbols;
}

}  // namespace profd
