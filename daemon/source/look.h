// Takes a look: what every thread of the targets does at this moment.
#ifndef PROFD_DAEMON_SOURCE_LOOK_H_
#define PROFD_DAEMON_SOURCE_LOOK_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"
#include "daemon/profile/look.h"
#include "daemon/profile/profile.h"

namespace profd {

// A look keeps no more threads than this, some 20 MiB with their stacks.
inline constexpr size_t kMostLooked = 32'768;

// Looks, and keeps the threads that `keep` keeps, `most` at most. Errors: Unimplemented when the
// kernel does not take the program, DataLoss for records that make no sense.
absl::StatusOr<Look> TakeLook(LookKernel* kernel, const Clock* clock,
                              absl::FunctionRef<bool(const ThreadInfo&)> keep,
                              size_t most = kMostLooked);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_LOOK_H_
