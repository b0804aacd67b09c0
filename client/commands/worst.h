// profctl worst: the longest single waits of a window.
#ifndef PROFD_CLIENT_COMMANDS_WORST_H_
#define PROFD_CLIENT_COMMANDS_WORST_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/answer/frame_choice.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

struct WorstOptions {
  std::string server;
  profd::v1::FetchRequest request;  // with `longest`
  FrameChoice frames;
  bool json = false;
  bool colour = false;
};

// The error is one line.
absl::Status PrintWorst(const WorstOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_WORST_H_
