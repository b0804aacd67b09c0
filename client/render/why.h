// Chains of waits as text and as JSON.
#ifndef PROFD_CLIENT_RENDER_WHY_H_
#define PROFD_CLIENT_RENDER_WHY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "client/analysis/activity.h"
#include "client/analysis/chains.h"
#include "client/answer/profile.h"

namespace profctl {

struct WhyReport {
  const Profile* wakers = nullptr;  // neither is owned; both outlive the report
  const Profile* cpu = nullptr;
  Activity activity = {};
  std::vector<Chains> chains = {};  // one for each group of waiting threads
  size_t more_groups = 0;           // that were asked for and are not in `chains`
};

std::string RenderWhyText(const WhyReport& report, bool colour);
std::string RenderWhyJson(const WhyReport& report);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_WHY_H_
