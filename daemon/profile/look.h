// What threads do at a moment.
#ifndef PROFD_DAEMON_PROFILE_LOOK_H_
#define PROFD_DAEMON_PROFILE_LOOK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/profile/profile.h"

namespace profd {

// What a thread did. Times are monotonic.
struct LookedThread {
  ThreadInfo info;
  bool running = false;
  Reason reason = Reason::kOther;  // unless it runs
  int64_t looked_ns = 0;
  std::optional<int64_t> since_ns;  // since when it runs, queues or waits; none: not known
  StackId stack{};                  // 0: it runs
  int32_t syscall = -1;
  std::optional<uint64_t> object;  // what it waits for: the first argument of the system call
  StackId described{};             // the same as ObjectOf a sample; 0: not known
};

struct Look {
  std::vector<LookedThread> threads;
  std::vector<std::shared_ptr<const StackTrace>> stacks;  // of these, with objects, each once
  int64_t begin_ns = 0;                                   // monotonic
  int64_t end_ns = 0;
  int64_t cpu_ns = 0;     // CPU time that it took
  uint64_t visited = 0;   // threads of targets
  uint64_t walks = 0;     // stacks that were read
  uint64_t torn = 0;      // of `threads`, those that ran whenever their stack was read
  uint64_t left_out = 0;  // threads that found no place in `threads`
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_LOOK_H_
