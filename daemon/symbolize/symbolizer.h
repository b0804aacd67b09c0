// Names frames: ELF symbols of modules, demangling, and the origin of the code.
#ifndef PROFD_DAEMON_SYMBOLIZE_SYMBOLIZER_H_
#define PROFD_DAEMON_SYMBOLIZE_SYMBOLIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"
#include "daemon/profile/identity.h"
#include "daemon/symbolize/name_source.h"

namespace profd {
namespace symbolize {
struct DebugFile;
}

enum class FrameKind : uint8_t { kKernel, kLibc, kRuntime, kApplication, kSynthetic };

// What else is known of a function's name.
struct NameDetails {
  // Other functions with the same code (identical code folding): any of them may have been called.
  std::vector<std::string> other_names;
  uint32_t more_names = 0;  // further symbols there, which were not read
  std::string suffix;       // what the compiler appended to a copy or part: ".cold", ".isra.0"
};

struct Symbol {
  std::string function;  // demangled; see NameSource for what it is without a symbol
  FrameKind kind = FrameKind::kApplication;
  NameSource source = NameSource::kNone;
  std::shared_ptr<const NameDetails> details = {};  // null: nothing, as of most
};

// What tells an ELF file of this path apart from others. Hostile input.
absl::StatusOr<ModuleIdentity> ReadIdentity(int fd, std::string path);

// Names for file offsets of one module, in any order, one result each: by symbol (.symtab and
// .dynsym; without .symtab those of `debug` or .gnu_debugdata), else by entry of the PLT, else by
// the bounds of the function in .eh_frame. All is read from `fd` and not kept; callers cache the
// results. The input may be hostile. If the file cannot be read, all names are "module+0xoffset".
// The module is named by the base name of `identity.path`.
std::vector<Symbol> SymbolizeModule(int fd, const ModuleIdentity& identity,
                                    std::span<const uint64_t> offsets,
                                    const symbolize::DebugFile* debug = nullptr);

// C++ (Itanium), Rust legacy and v0 names, without hash suffixes. Marks of a compiler's copies and
// parts at the end (".cold", ".isra.0", ".llvm.123") are removed; anything else is unchanged.
std::string Demangle(const std::string& name);
// The same, with what was removed at the end; empty if nothing was.
struct DemangledName {
  std::string text;
  std::string suffix;
};
DemangledName DemangleParts(const std::string& name);

// Whether code belongs to libc, a runtime or the application, by module path and demangled name.
FrameKind ClassifyFrame(const std::string& module_path, const std::string& function);

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_SYMBOLIZER_H_
