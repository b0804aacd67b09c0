#include "client/commands/why.h"

#include <algorithm>
#include <utility>

#include "client/analysis/activity.h"
#include "client/analysis/chains.h"
#include "client/answer/profile.h"
#include "client/render/why.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

// Of the groups of threads that were asked for; else the one that waits most.
constexpr size_t kMostGroups = 3;

}  // namespace

absl::Status PrintWhy(const WhyOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(ActivityAnswer answer,
                   ReceiveActivity(options.server, options.window, options.choice, options.frames));
  WhyReport report = {
      .wakers = &answer.wakers(), .cpu = &answer.cpu(), .activity = std::move(answer.activity)};
  std::vector<Root>& roots = answer.roots;
  const bool asked = options.choice.IsSome();
  // Those that do not wait say nothing, unless they are all that there is.
  while (roots.size() > 1 && WaitingNs(report.activity.groups[roots.back().part]) <= 0) {
    roots.pop_back();
  }
  const size_t shown = std::min(roots.size(), asked ? kMostGroups : 1);
  report.more_groups = roots.size() - shown;
  roots.resize(shown);
  ChainOptions chains;
  chains.depth = options.depth;
  chains.reasons = options.reasons;
  for (const Root& root : roots) {
    report.chains.push_back(FollowChains(report.activity, root, chains));
  }
  out << (options.json ? RenderWhyJson(report) : RenderWhyText(report, options.colour));
  return absl::OkStatus();
}

}  // namespace profctl
