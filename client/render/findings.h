// What stands out in a profile. docs/profctl.md has the rules.
#ifndef PROFD_CLIENT_RENDER_FINDINGS_H_
#define PROFD_CLIENT_RENDER_FINDINGS_H_

#include <vector>

#include "client/answer/view.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// The most important first; none if nothing passes a rule. What is an estimate counts only if it
// passes by two standard errors.
std::vector<profd::v1::Finding> Findings(const View& view);

// The whole answer with the findings of its views, one for each sample type.
profd::v1::Profile WithFindings(const Answer& answer, const std::vector<View>& views);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FINDINGS_H_
