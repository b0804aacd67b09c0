// Finds symbols of jemalloc by their names in its source; a build may add a prefix to each.
#ifndef PROFD_DAEMON_HEAP_NAMED_SYMBOLS_H_
#define PROFD_DAEMON_HEAP_NAMED_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/symbolize/elf_symbols.h"

namespace profd {

// The number of symbols with a matching name that are examined at most.
inline constexpr size_t kMaxNamed = 64;

// The addresses of `symbols` named `wanted`, with any prefix, of at least `least_size` bytes;
// ascending, each once. Excludes parts and clones made by the compiler, and jemalloc's own options
// ("opt_" before the name).
std::vector<uint64_t> AddressesOf(const std::vector<symbolize::NamedSymbol>& symbols,
                                  const std::string& wanted, uint64_t least_size);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_NAMED_SYMBOLS_H_
