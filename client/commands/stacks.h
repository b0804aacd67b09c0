// `profctl stacks`: what threads do now.
#ifndef PROFD_CLIENT_COMMANDS_STACKS_H_
#define PROFD_CLIENT_COMMANDS_STACKS_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/analysis/looks.h"
#include "client/answer/frame_choice.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

struct StacksOptions {
  std::string server;
  profd::v1::GetStacksRequest request;
  FrameChoice frames;
  bool show_idle = false;
  bool json = false;
  bool colour = false;
};

absl::Status PrintStacks(const StacksOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_STACKS_H_
