#include "client/commands/bottlenecks.h"

#include <algorithm>
#include <utility>

#include "client/analysis/activity.h"
#include "client/analysis/bottlenecks.h"
#include "client/render/bottlenecks.h"
#include "daemon/base/status.h"

namespace profctl {

absl::Status PrintBottlenecks(const BottlenecksOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(ActivityAnswer answer,
                   ReceiveActivity(options.server, options.window, options.choice, options.frames));
  BottlenecksPage page = {
      .wakers = &answer.wakers(), .cpu = &answer.cpu(), .activity = std::move(answer.activity)};
  BottleneckOptions wanted;
  wanted.most = static_cast<size_t>(options.top);
  if (options.choice.IsSome()) {
    for (const Root& root : answer.roots) wanted.groups.push_back(root.whole);
  }
  // The selected parts of groups follow all groups.
  size_t groups = page.activity.groups.size();
  for (const Root& root : answer.roots) groups = std::min<size_t>(groups, root.part);
  page.report = FindBottlenecks(page.activity, groups, wanted);
  out << (options.json ? RenderBottlenecksJson(page) : RenderBottlenecksText(page, options.colour));
  return absl::OkStatus();
}

}  // namespace profctl
