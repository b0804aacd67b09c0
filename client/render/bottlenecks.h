// What limits throughput, as text and as JSON.
#ifndef PROFD_CLIENT_RENDER_BOTTLENECKS_H_
#define PROFD_CLIENT_RENDER_BOTTLENECKS_H_

#include <string>

#include "client/analysis/activity.h"
#include "client/analysis/bottlenecks.h"
#include "client/answer/profile.h"

namespace profctl {

struct BottlenecksPage {
  const Profile* wakers = nullptr;  // neither is owned; both outlive the page
  const Profile* cpu = nullptr;
  Activity activity = {};
  BottleneckReport report = {};
};

std::string RenderBottlenecksText(const BottlenecksPage& page, bool colour);
std::string RenderBottlenecksJson(const BottlenecksPage& page);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_BOTTLENECKS_H_
