// What the way into a program at a probe takes, and out of it again.
#ifndef PROFD_DAEMON_TARGET_TRAP_H_
#define PROFD_DAEMON_TARGET_TRAP_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"

namespace profd {

// The first instruction of the function that the probe stands on.
enum class FirstInstruction {
  kEmulated,  // a push: the kernel carries it out
  kStepped,   // another one: the thread carries it out elsewhere, under the kernel's eye
};

// Calls a function of ours with a probe in it, and without; ns of one call more. `attach` puts the probe
// at that offset of our own file. 1, so that it is known, where that cannot be.
double MeasureTrap(FirstInstruction first,
                   absl::FunctionRef<absl::StatusOr<Probe>(int file, uint64_t offset)> attach);

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_TRAP_H_
