// The answer that commands which follow waits begin with, and the threads that they start from.
#ifndef PROFD_CLIENT_COMMANDS_ACTIVITY_ANSWER_H_
#define PROFD_CLIENT_COMMANDS_ACTIVITY_ANSWER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/analysis/activity.h"
#include "client/answer/frame_choice.h"
#include "client/answer/profile.h"

namespace profctl {

// As --target and --thread say, checked.
struct ThreadChoice {
  std::vector<std::string> targets;  // empty: all
  std::string thread;                // empty: all

  bool IsSome() const { return !targets.empty() || !thread.empty(); }
};

// What all threads did in a window, and the chosen ones to begin with.
struct ActivityAnswer {
  Answer answer;  // the kinds "wakers" and "cpu"
  Activity activity = {};
  std::vector<Root> roots = {};  // one at least where some are chosen

  const Profile& wakers() const { return answer.profiles[0]; }
  const Profile& cpu() const { return answer.profiles[1]; }
};

// Of all processes: whoever ended a wait may belong to any. The error is one line: InvalidArgument
// if a target is none, NotFound if nothing is chosen.
absl::StatusOr<ActivityAnswer> ReceiveActivity(const std::string& server,
                                               const profd::v1::Window& window,
                                               const ThreadChoice& choice,
                                               const FrameChoice& frames);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_ACTIVITY_ANSWER_H_
