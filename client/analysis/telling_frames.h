// The frames of a stack that tell most about it.
#ifndef PROFD_CLIENT_ANALYSIS_TELLING_FRAMES_H_
#define PROFD_CLIENT_ANALYSIS_TELLING_FRAMES_H_

#include <string>
#include <vector>

#include "client/answer/profile.h"

namespace profctl {

// How much a frame says about a wait or an allocation; lower is more.
int FrameRank(const Frame& frame, Unit unit);

// By stack, the innermost function of the program in it.
std::vector<std::string> Askers(const Profile& profile);

struct TellingFrame {
  std::string name;        // clean
  bool after_gap = false;  // frames between the one before and this one are not among them
};

// The most telling frames of a stack: up to six, innermost first.
std::vector<TellingFrame> TellingFrames(const Profile& profile, const Stack& stack);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_TELLING_FRAMES_H_
