// What debug info says of an address.
#ifndef PROFD_DAEMON_LINES_SOURCE_LINE_H_
#define PROFD_DAEMON_LINES_SOURCE_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace profd {

struct SourceLine {
  std::string function;  // demangled; empty: not known
  std::string file;      // path as the compiler was given it; empty: not known
  uint32_t line = 0;     // 0: not known
  friend bool operator==(const SourceLine&, const SourceLine&) = default;
};

// The code at one address, innermost first: each function but the last one was inlined into the
// next, at the line that the next one has. Empty: nothing is known.
using LineChain = std::vector<SourceLine>;

// Longer chains lose their innermost functions, longer texts their ends.
inline constexpr size_t kMaxChain = 64;
inline constexpr size_t kMaxFunctionText = 1024;
inline constexpr size_t kMaxFileText = 512;

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_SOURCE_LINE_H_
