// Where at the begin of a function a probe costs least.
#ifndef PROFD_DAEMON_HEAP_PROBE_POINT_H_
#define PROFD_DAEMON_HEAP_PROBE_POINT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/status.h"
#include "daemon/symbolize/elf_file.h"

namespace profd {

// As many bytes of a function as are ever looked at.
inline constexpr size_t kProbePointBytes = 256;

struct ProbePoint {
  uint64_t skip = 0;  // bytes from the function's first instruction
  // The kernel does not emulate the instruction there: the thread carries it out elsewhere, in a
  // single step, whose exception costs a virtual machine as much as ten probes.
  bool stepped = true;
  friend bool operator==(const ProbePoint&, const ProbePoint&) = default;
};

// Whether every kernel carries out the instruction that `code` begins with by itself when a probe
// stands on it: a push of a register, a nop of one byte or a jump (branch_setup_xol_ops and
// push_setup_xol_ops in arch/x86/kernel/uprobes.c). Longer nops are for new kernels only; calls are
// not for them all either, as some leave out the shadow stack.
bool IsEmulated(std::span<const uint8_t> code);

// How far a probe may stand from a function's first instruction.
enum class Reach {
  // The arguments are in their registers, and the stack is as the caller made it.
  kUnchanged,
  // So are the first three arguments and the stack, but a system call may lie behind.
  kAfterSystemCall,
};

// The first instruction that the kernel emulates, if those before it are few and within reach, and
// no jump in `code` leads there or in between; else the first one of all. `code` are a function's
// x86-64 instructions from its first one on, and may be anything.
ProbePoint ChooseProbePoint(std::span<const uint8_t> code, Reach reach = Reach::kUnchanged);

// Of the function whose code lies there. Errors: what reading gives.
absl::StatusOr<ProbePoint> FindProbePoint(const symbolize::ElfFile& elf,
                                          const symbolize::FileRange& code,
                                          Reach reach = Reach::kUnchanged);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_PROBE_POINT_H_
