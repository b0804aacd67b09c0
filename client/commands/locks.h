// profctl locks: the most contended locks of a window.
#ifndef PROFD_CLIENT_COMMANDS_LOCKS_H_
#define PROFD_CLIENT_COMMANDS_LOCKS_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/answer/frame_choice.h"
#include "client/render/locks.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

struct LocksOptions {
  std::string server;
  profd::v1::FetchRequest request;  // without sample types
  LockOrder order = LockOrder::kTime;
  FrameChoice frames;
  bool show_idle = false;
  bool json = false;
  bool colour = false;
};

// The error is one line.
absl::Status PrintLocks(const LocksOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_LOCKS_H_
