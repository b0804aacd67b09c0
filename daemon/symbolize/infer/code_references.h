// What the machine code of a function refers to.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_CODE_REFERENCES_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_CODE_REFERENCES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

namespace profd::symbolize {

// Virtual addresses, in the order of the code.
struct CodeReferences {
  std::vector<uint64_t> calls;  // called
  std::vector<uint64_t> jumps;  // jumped to, outside of the code itself
  bool futex_wait = false;      // it waits for a futex, by the number of the system call
  bool pauses = false;          // it has the instruction that loops of spinning locks have
};

// Decodes all of `code`, which begins at `address`. Bytes that are no instruction are skipped.
CodeReferences FindReferences(std::span<const uint8_t> code, uint64_t address);

// Calls `loaded` with each address that `code` seems to load, with a lea relative to rip or as a
// 32-bit constant, and `called` with each that it seems to call or jump to by a 32-bit distance. It
// does not decode: it looks for the bytes of such instructions, which is some hundred times faster,
// and also finds what only looks like one. Hardly anything but a record's code has the exact
// address of the record, or a call that of a function, so this does not matter for these.
void ForEachReference(std::span<const uint8_t> code, uint64_t address,
                      absl::FunctionRef<void(uint64_t target)> loaded,
                      absl::FunctionRef<void(uint64_t target)> called);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_CODE_REFERENCES_H_
