#include "client/commands/why.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "client/activity.h"
#include "client/chains.h"
#include "client/commands/fetch.h"
#include "client/profile.h"
#include "client/render/why.h"
#include "daemon/base/status.h"
#include "re2/re2.h"

namespace profctl {
namespace {

// Of the groups of threads that were asked for; else the one that waits most.
constexpr size_t kMostGroups = 3;

// A PID, or a regular expression that is searched in the process name.
class Target {
 public:
  explicit Target(const std::string& text) : regex_(text, RE2::Quiet) {
    is_pid_ = absl::SimpleAtoi(text, &pid_);
  }
  bool Matches(const Thread& thread) const {
    return is_pid_ ? thread.pid == pid_ : RE2::PartialMatch(thread.process, regex_);
  }

 private:
  RE2 regex_;
  int32_t pid_ = 0;
  bool is_pid_ = false;
};

}  // namespace

absl::Status PrintWhy(const WhyOptions& options, std::ostream& out) {
  profd::v1::FetchRequest request;
  *request.mutable_window() = options.window;
  // All processes: whoever ended a wait may be any of them.
  for (const profd::Kind kind : {profd::Kind::kWaker, profd::Kind::kCpu}) {
    request.add_sample_types(std::string(profd::DescribeSampleType(kind).name));
  }
  request.add_group_by(profd::v1::GROUP_KEY_PROCESS);
  request.add_group_by(profd::v1::GROUP_KEY_THREAD);
  ASSIGN_OR_RETURN(const Answer answer, ReceiveAnswer(options.server, request));

  std::vector<std::unique_ptr<Target>> targets;
  for (const std::string& target : options.targets) {
    targets.push_back(std::make_unique<Target>(target));
  }
  const RE2 name(options.thread, RE2::Quiet);
  const auto selected = [&](const Thread& thread) {
    return (targets.empty() || std::any_of(targets.begin(), targets.end(),
                                           [&](const auto& t) { return t->Matches(thread); })) &&
           RE2::PartialMatch(thread.name, name);
  };
  WhyReport report = {.wakers = &answer.profiles[0], .cpu = &answer.profiles[1]};
  std::vector<Root> roots;
  report.activity = ReadActivity(*report.wakers, *report.cpu, selected, &roots);
  const bool asked = !options.targets.empty() || !options.thread.empty();
  if (roots.empty() && asked) {
    return absl::NotFoundError("no thread in this window matches --target and --thread");
  }
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
