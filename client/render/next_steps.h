// What to ask next about a window, as commands to paste. docs/profctl.md has the rules.
#ifndef PROFD_CLIENT_RENDER_NEXT_STEPS_H_
#define PROFD_CLIENT_RENDER_NEXT_STEPS_H_

#include <string>
#include <vector>

#include "client/answer/view.h"

namespace profctl {

// Of what the command asked for that led to the view.
struct AskedFor {
  std::string server{};                // empty: the default
  std::vector<std::string> targets{};  // empty: all
  std::string thread{};                // empty: all
  bool by_object = false;              // the samples are grouped by what the waits are for
};

inline constexpr size_t kMostNextSteps = 2;

// Lines such as "profctl locks --from ... --to ...  # which locks", each about the window and the
// targets of the view; the most telling first, kMostNextSteps at most. What is an estimate counts
// only if it passes its rule by two standard errors.
std::vector<std::string> NextSteps(const View& view, const AskedFor& asked);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_NEXT_STEPS_H_
