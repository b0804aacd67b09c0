// The stacks and functions of a view that matter most, as text.
#ifndef PROFD_CLIENT_RENDER_STACKS_H_
#define PROFD_CLIENT_RENDER_STACKS_H_

#include <cstddef>
#include <cstdint>
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

// What stands to the account of one function, as AppendFunctions tells it.
struct Site {
  std::string function;
  int64_t bytes = 0;
  int64_t error_bytes = 0;  // standard error
  int64_t whole_bytes = 0;  // of the process
};
// Of a profile of bytes: the functions of one process, those with most first.
std::vector<Site> TopSites(const Profile& profile, int32_t pid, size_t most);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_STACKS_H_
