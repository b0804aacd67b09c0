// Folded stacks, the input of flame graph tools.
#ifndef PROFD_CLIENT_RENDER_FOLDED_H_
#define PROFD_CLIENT_RENDER_FOLDED_H_

#include <string>

#include "client/answer/view.h"

namespace profctl {

// One line per stack, sorted, equal stacks merged: "group;root;...;leaf;[reason] ns", or for bytes
// "group;root;...;leaf bytes". The group has all its labels, "process;thread" by default. Kernel
// frames end in "_[k]". Time without a stack is "group;[unsampled];[reason] ns". In names, ';' and
// spaces become ':' and '_'.
std::string RenderFolded(const View& view);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FOLDED_H_
