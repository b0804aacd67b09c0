// What stands out in a profile, in sentences. docs/profctl.md has the rules.
#ifndef PROFD_CLIENT_RENDER_FINDINGS_H_
#define PROFD_CLIENT_RENDER_FINDINGS_H_

#include <string>
#include <vector>

#include "client/answer/view.h"

namespace profctl {

// The most important first; none if nothing passes a rule. What is an estimate counts only if it
// passes by two standard errors.
std::vector<std::string> Findings(const View& view);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FINDINGS_H_
