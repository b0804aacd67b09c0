#include "client/commands/bottlenecks.h"

#include <algorithm>
#include <vector>

#include "client/activity.h"
#include "client/bottlenecks.h"
#include "client/render/bottlenecks.h"
#include "daemon/base/status.h"

namespace profctl {

absl::Status PrintBottlenecks(const BottlenecksOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(const ThreadFilter selected, FilterOf(options.choice));
  ASSIGN_OR_RETURN(const Answer answer,
                   ReceiveActivity(options.server, options.window, options.frames));
  BottlenecksPage page = {.wakers = &answer.profiles[0], .cpu = &answer.profiles[1]};
  std::vector<Root> roots;
  page.activity = ReadActivity(*page.wakers, *page.cpu, selected, &roots);
  BottleneckOptions wanted;
  wanted.most = static_cast<size_t>(options.top);
  if (options.choice.IsSome()) {
    if (roots.empty()) return NobodyMatches();
    for (const Root& root : roots) wanted.groups.push_back(root.whole);
  }
  // The selected parts of groups follow all groups.
  size_t groups = page.activity.groups.size();
  for (const Root& root : roots) groups = std::min<size_t>(groups, root.part);
  page.report = FindBottlenecks(page.activity, groups, wanted);
  out << (options.json ? RenderBottlenecksJson(page) : RenderBottlenecksText(page, options.colour));
  return absl::OkStatus();
}

}  // namespace profctl
