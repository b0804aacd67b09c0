// The stacks and functions of a view that matter most, as text.
#ifndef PROFD_CLIENT_RENDER_STACKS_H_
#define PROFD_CLIENT_RENDER_STACKS_H_

#include <string>
#include <vector>

#include "client/view.h"

namespace profctl {

// The group of each thread, after its process where there are several.
std::vector<std::string> GroupNames(const Profile& profile);

// The widest stacks under a heading, each with the frames that tell most. At most 100 columns.
void AppendStacks(const View& view, bool colour, std::string& text);

// Of a profile of bytes: what stands to the account of each function of the program, told by the
// innermost frame of a stack that is neither the allocator's nor a runtime's.
void AppendFunctions(const View& view, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_STACKS_H_
