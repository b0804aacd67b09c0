// The stacks and functions of a view that matter most, as text.
#ifndef PROFD_CLIENT_RENDER_STACKS_H_
#define PROFD_CLIENT_RENDER_STACKS_H_

#include <string>
#include <vector>

#include "client/view.h"

namespace profctl {

// Up to six frames of a stack, clean, innermost first: those that tell most.
std::vector<std::string> TellingFrames(const Profile& profile, const Stack& stack);

// The widest stacks under a heading, each with the frames that tell most. At most 100 columns.
void AppendStacks(const View& view, bool colour, std::string& text);

// Of a profile of bytes: what each function of the program asked for, by the origin of the stacks.
void AppendFunctions(const View& view, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_STACKS_H_
