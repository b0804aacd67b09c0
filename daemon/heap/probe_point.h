// Finds the cheapest place for a probe at the start of a function.
#ifndef PROFD_DAEMON_HEAP_PROBE_POINT_H_
#define PROFD_DAEMON_HEAP_PROBE_POINT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/status.h"
#include "daemon/elf/elf_file.h"

namespace profd {

// The number of bytes of a function that are examined at most.
inline constexpr size_t kProbePointBytes = 256;

struct ProbePoint {
  uint64_t skip = 0;  // bytes from the function's first instruction
  // The kernel does not emulate the instruction: the thread single-steps a copy of it. In a virtual
  // machine the exception costs as much as ten probes.
  bool stepped = true;
  friend bool operator==(const ProbePoint&, const ProbePoint&) = default;
};

// Whether every kernel emulates the first instruction of `code` under a probe: a register push, a
// one-byte nop or a jump (branch_setup_xol_ops and push_setup_xol_ops in
// arch/x86/kernel/uprobes.c). Only new kernels emulate longer nops. Calls do not count, because
// some kernels do not update the shadow stack.
bool IsEmulated(std::span<const uint8_t> code);

// How far a probe may be from a function's first instruction.
enum class Reach {
  // Arguments are in their registers, and the stack is as the caller left it.
  kUnchanged,
  // The same for the first three arguments and the stack, but a system call may have run.
  kAfterSystemCall,
};

// The first emulated instruction, if few instructions within `reach` come before it and no jump in
// `code` leads to it or in between; else the function's first instruction. `code` are the x86-64
// instructions of a function from its first one on; they may be any bytes.
ProbePoint ChooseProbePoint(std::span<const uint8_t> code, Reach reach = Reach::kUnchanged);

// The same for the function at `code` in a file. Errors: read errors.
absl::StatusOr<ProbePoint> FindProbePoint(const symbolize::ElfFile& elf,
                                          const symbolize::FileRange& code,
                                          Reach reach = Reach::kUnchanged);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_PROBE_POINT_H_
