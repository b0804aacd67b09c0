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

struct TellingFrame {
  std::string name;        // clean
  bool after_gap = false;  // frames between the one before and this one are not among them
};

// The most telling frames of a stack: up to six, innermost first.
std::vector<TellingFrame> TellingFrames(const Profile& profile, const Stack& stack);

// Under a numbered line.
inline constexpr size_t kFrameMargin = 7;

// A line for it, `margin` columns in. A gap is marked in the margin.
std::string FrameLine(const TellingFrame& frame, size_t margin);

// The widest stacks under a heading, each with the frames that tell most.
void AppendStacks(const View& view, bool colour, std::string& text);

// For a profile of bytes: bytes by function of the program, the origin of the stacks.
void AppendFunctions(const View& view, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_STACKS_H_
