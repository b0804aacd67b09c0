// profctl why: requests a window and prints its chains of waits.
#ifndef PROFD_CLIENT_COMMANDS_WHY_H_
#define PROFD_CLIENT_COMMANDS_WHY_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/answer/frame_choice.h"
#include "client/answer/reason.h"
#include "client/commands/activity_answer.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

inline constexpr int kMostDepth = 20;

struct WhyOptions {
  std::string server;
  profd::v1::Window window;
  ThreadChoice choice;          // the waiting threads; wakers may be any
  std::vector<Reason> reasons;  // of the first waits; empty: all
  int depth = 5;
  FrameChoice frames;
  bool json = false;
  bool colour = false;
};

// The error is one line.
absl::Status PrintWhy(const WhyOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_WHY_H_
