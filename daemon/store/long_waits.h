// Single waits that were long, as the store keeps them: in each slice the longest of each stack.
#ifndef PROFD_DAEMON_STORE_LONG_WAITS_H_
#define PROFD_DAEMON_STORE_LONG_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/store/slice.h"

namespace profd {

// So many of a process, stack and reason are kept, and so many in all: of waits for poll and sleep,
// which are mostly idle, and of others; beside that as many that are the longest of their stacks.
struct LongWaitLimits {
  size_t of_stack;
  size_t resting;
  size_t others;
};
inline constexpr LongWaitLimits kLongWaitsOfSlice = {.of_stack = 32, .resting = 128, .others = 384};
inline constexpr LongWaitLimits kLongWaitsOfAnswer = {
    .of_stack = 1024, .resting = 4096, .others = 12288};

// What the numbers of waits name.
struct WaitNames {
  std::span<const std::shared_ptr<const ThreadInfo>> threads;
  std::span<const Site> sites;
};

// Makes one of what was told of the same wait at different times, and keeps the longest. What is
// left out of a stack counts as `similar` to the shortest that is kept of it. Returns how many
// waits of stacks of which none is kept were left out.
uint64_t KeepLongest(const WaitNames& names, const LongWaitLimits& limits,
                     std::vector<StoredWait>* waits);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_LONG_WAITS_H_
