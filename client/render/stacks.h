// The widest stacks and functions of a view, as text.
#ifndef PROFD_CLIENT_RENDER_STACKS_H_
#define PROFD_CLIENT_RENDER_STACKS_H_

#include <string>

#include "client/analysis/telling_frames.h"
#include "client/answer/view.h"

namespace profctl {

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
