// profctl bottlenecks: requests a window and prints what limits its throughput.
#ifndef PROFD_CLIENT_COMMANDS_BOTTLENECKS_H_
#define PROFD_CLIENT_COMMANDS_BOTTLENECKS_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/answer/frame_choice.h"
#include "client/commands/activity_answer.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

struct BottlenecksOptions {
  std::string server;
  profd::v1::Window window;
  ThreadChoice choice;  // whose throughput it is; whom they wait for may be any
  int top = 5;          // of each knot
  FrameChoice frames;
  bool json = false;
  bool colour = false;
};

// The error is one line.
absl::Status PrintBottlenecks(const BottlenecksOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_BOTTLENECKS_H_
