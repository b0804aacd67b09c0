// Looks in words, and threads that do the same.
#ifndef PROFD_CLIENT_RENDER_LOOK_GROUPS_H_
#define PROFD_CLIENT_RENDER_LOOK_GROUPS_H_

#include <string>
#include <vector>

#include "client/analysis/looks.h"

namespace profctl {

// For how long it has done so; "?": not known.
std::string DurationOf(const ThreadLook& look);
// What a wait is for: "fd 7 (/var/lib/x.db)"; may be empty.
std::string ObjectOf(const ThreadLook& look);
// The functions of its stack, innermost first, without what every wait passes in the kernel.
std::vector<std::string> FunctionsOf(const Profile& profile, const ThreadLook& look);
// The function that its stack comes from; empty without a stack.
std::string OriginOf(const Profile& profile, const ThreadLook& look);

// Threads of a process that do the same: identical stacks, by function.
struct LookGroup {
  std::vector<const ThreadLook*> looks;  // the longest first
  const ThreadLook& longest() const { return *looks.front(); }
};

// The longest wait first.
std::vector<LookGroup> GroupLooks(const Profile& profile,
                                  const std::vector<const ThreadLook*>& looks);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_LOOK_GROUPS_H_
