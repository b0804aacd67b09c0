// Names for frames: ELF symbols of modules, kallsyms, demangling, and what kind of code it is.
#ifndef PROFD_DAEMON_SYMBOLIZE_SYMBOLIZER_H_
#define PROFD_DAEMON_SYMBOLIZE_SYMBOLIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profd {

enum class FrameKind : uint8_t { kKernel, kLibc, kRuntime, kApplication, kSynthetic };

struct Symbol {
  std::string function;  // demangled; "module+0xoffset" where there is no symbol
  FrameKind kind = FrameKind::kApplication;
};

// What a file says about itself.
struct ModuleIdentity {
  std::string path;      // as the target saw it; may be gone by now
  std::string build_id;  // hex; empty when the file has none
};

// Reads the GNU build-id of an ELF file as hex; "" when it has none. Hostile input.
absl::StatusOr<std::string> ReadBuildId(int fd);

// Names for file offsets of one module, `offsets` in any order, one result each. The symbol table
// is read from `fd` (.symtab, else .dynsym; both when both exist), used, and not kept: what was
// asked for is the only thing remembered by callers. Hostile input; a file that cannot be read
// gives "module+0xoffset" for all. `identity.path`'s base name is the module's name.
std::vector<Symbol> SymbolizeModule(int fd, const ModuleIdentity& identity,
                                    std::span<const uint64_t> offsets);

// Names for kernel addresses from /proc/kallsyms (or `path`). Errors: PermissionDenied when the
// addresses are hidden (CAP_SYSLOG or kptr_restrict); the table is not kept.
absl::StatusOr<std::vector<Symbol>> SymbolizeKernel(std::span<const uint64_t> addresses,
                                                    const std::string& path = "/proc/kallsyms");

// C++ (Itanium), Rust legacy and v0 names, without hash suffixes; anything else unchanged.
std::string Demangle(const std::string& name);

// libc, runtime or application, by module path and demangled name.
FrameKind ClassifyFrame(const std::string& module_path, const std::string& function);

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_SYMBOLIZER_H_
