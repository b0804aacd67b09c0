// Inferred names: how they are found for a module, and how they are written.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFERRED_NAMES_H_
#define PROFD_DAEMON_SYMBOLIZE_INFERRED_NAMES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/crate_maps.h"
#include "daemon/symbolize/module_names.h"

namespace profd::symbolize {

// Words for functions of which the code says what they do. The last part of an inferred name.
inline constexpr std::string_view kFutexWaitWord = "futex_wait";  // waits on behalf of its caller
inline constexpr std::string_view kLockSlowWord = "lock_slow";    // wants a lock of another thread
inline constexpr std::string_view kSendWord = "send";             // waits while a channel is full
inline constexpr std::string_view kReceiveWord = "recv";          // waits while it is empty

// Infers crate and module for those of `names` of which only the bounds are known (kBounds), as far
// as there is evidence. `symbol` becomes the path, `source` kInferred. `module` is the name of the
// file. A few ten milliseconds for a Rust program of any size, and 0.02 ms for each function, of
// which there is a limit; the first time also 4 ms for each MB of code, which `maps` remembers.
// Reads nothing if all names are known.
void InferNames(const ElfFile& elf, std::string_view module, std::span<FoundName> names,
                CrateMaps* maps);

// "~tokio::runtime::park (fn_85e80)".
std::string InferredFunction(std::string_view path, uint64_t begin);

// The parts of an inferred name.
struct InferredParts {
  std::string_view module;  // "tokio::runtime::park"; may be empty
  std::string_view word;    // one of the first two words above, or empty; the others may be modules
};
// None if `function` is not an inferred name. The parts point into it.
std::optional<InferredParts> ParseInferred(std::string_view function);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFERRED_NAMES_H_
