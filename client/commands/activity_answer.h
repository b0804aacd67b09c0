// The answer that commands which follow waits begin with, and the threads that they start from.
#ifndef PROFD_CLIENT_COMMANDS_ACTIVITY_ANSWER_H_
#define PROFD_CLIENT_COMMANDS_ACTIVITY_ANSWER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/activity.h"
#include "client/frame_choice.h"
#include "client/profile.h"

namespace profctl {

// As --target and --thread say, checked.
struct ThreadChoice {
  std::vector<std::string> targets;  // empty: all
  std::string thread;                // empty: all

  bool IsSome() const { return !targets.empty() || !thread.empty(); }
};

// What accepts these threads, as the daemon does in requests that it filters. InvalidArgument if a
// target is none.
absl::StatusOr<ThreadFilter> FilterOf(const ThreadChoice& choice);
// The error if it accepts none.
absl::Status NobodyMatches();

// The kinds "wakers" and "cpu", in this order, of all processes: whoever ended a wait may belong to
// any. The error is one line.
absl::StatusOr<Answer> ReceiveActivity(const std::string& server, const profd::v1::Window& window,
                                       const FrameChoice& frames);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_ACTIVITY_ANSWER_H_
