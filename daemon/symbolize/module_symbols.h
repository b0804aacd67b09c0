// Names for the code of a module, with a memory for what they are inferred from.
#ifndef PROFD_DAEMON_SYMBOLIZE_MODULE_SYMBOLS_H_
#define PROFD_DAEMON_SYMBOLIZE_MODULE_SYMBOLS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/symbolize/infer/crate_maps.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {

// As SymbolizeModule of symbolizer.h, which remembers nothing: that reads all code of a stripped
// Rust program each time.
std::vector<Symbol> SymbolizeModule(int fd, const ModuleIdentity& identity,
                                    std::span<const uint64_t> offsets,
                                    const symbolize::DebugFile* debug, symbolize::CrateMaps* maps);

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_MODULE_SYMBOLS_H_
