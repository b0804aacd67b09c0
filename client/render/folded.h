// Folded stacks, the input of flame graph tools.
#ifndef PROFD_CLIENT_RENDER_FOLDED_H_
#define PROFD_CLIENT_RENDER_FOLDED_H_

#include <string>

#include "client/view.h"

namespace profctl {

// One line a stack, "group;root;...;leaf;[reason] ns", sorted, equal stacks merged; in bytes there
// is no reason, "group;root;...;leaf bytes". The group has all its labels, "process;thread" by
// default. Kernel frames end in "_[k]"; what has no stack is "group;[unsampled];[reason] ns". ';'
// and white space in names become ':' and '_'.
std::string RenderFolded(const View& view);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FOLDED_H_
