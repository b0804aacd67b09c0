// The widest stacks and functions of a view, as text.
#ifndef PROFD_CLIENT_RENDER_STACKS_H_
#define PROFD_CLIENT_RENDER_STACKS_H_

#include <string>
#include <vector>

#include "client/answer/view.h"

namespace profctl {

// How much a frame says about a wait or an allocation; lower is more.
int FrameRank(const Frame& frame, Unit unit);

// By stack, the innermost function of the program in it.
std::vector<std::string> Askers(const Profile& profile);

// The most telling frames of a stack: up to six, clean, innermost first.
std::vector<std::string> TellingFrames(const Profile& profile, const Stack& stack);

// The widest stacks under a heading, each with the frames that tell most.
void AppendStacks(const View& view, bool colour, std::string& text);

// For a profile of bytes: bytes by function of the program, the origin of the stacks.
void AppendFunctions(const View& view, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_STACKS_H_
