// Symbols of jemalloc by the names that its source gives them; a build may put a prefix before
// each.
#ifndef PROFD_DAEMON_HEAP_NAMED_SYMBOLS_H_
#define PROFD_DAEMON_HEAP_NAMED_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/symbolize/elf_symbols.h"

namespace profd {

// As many symbols as are looked at whose names hold the one that is sought.
inline constexpr size_t kMaxNamed = 64;

// The addresses of those of `symbols` that are called `wanted`, with any prefix, and are of
// `least_size` bytes or more; ascending, each once. Parts and clones that a compiler made, and
// jemalloc's own options
// ("opt_" before the name), are others.
std::vector<uint64_t> AddressesOf(const std::vector<symbolize::NamedSymbol>& symbols,
                                  const std::string& wanted, uint64_t least_size);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_NAMED_SYMBOLS_H_
