// How the name of a function was found.
#ifndef PROFD_DAEMON_SYMBOLIZE_NAME_SOURCE_H_
#define PROFD_DAEMON_SYMBOLIZE_NAME_SOURCE_H_

#include <cstddef>
#include <cstdint>

namespace profd {

enum class NameSource : uint8_t {
  kNone,            // nothing is known but the place: "module+0x1f"
  kSymbols,         // the file's symbol table, or the one of Go's runtime
  kDynamicSymbols,  // the symbols that the file exports
  kDebugFile,       // the symbol table of a debug file, or that in .gnu_debugdata
  kPlt,             // the relocation of an entry of the PLT: "memcpy@plt"
  kBounds,          // no name, but the bounds of the function: "module:fn_85e80"
  kInferred,        // a guess at crate and module: "~tokio::runtime::park (fn_85e80)"
  kPerfMap,         // the process's own list of the code that it made at run time
  kDebugInfo,       // DWARF: an inlined function, or one without any other name
  kKallsyms,        // the kernel's symbols
  kProfd,           // made by profd
  kRtti,            // a guess at a virtual function: "~ns::Class::vfn3"
};
inline constexpr size_t kNameSourceCount = 12;

// Whether the name is that of a place, or a guess: whoever knows the function knows more.
constexpr bool IsPlaceOnly(NameSource source) {
  return source == NameSource::kNone || source == NameSource::kBounds ||
         source == NameSource::kInferred || source == NameSource::kRtti;
}

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_NAME_SOURCE_H_
