#include "client/commands/activity_answer.h"

#include <algorithm>
#include <utility>

#include "client/commands/fetch.h"
#include "daemon/base/status.h"
#include "daemon/service/filter.h"
#include "re2/re2.h"

namespace profctl {
namespace {

// What accepts these threads, as the daemon does in requests that it filters.
absl::StatusOr<ThreadFilter> FilterOf(const ThreadChoice& choice) {
  std::vector<profd::TargetFilter> targets;
  for (const std::string& target : choice.targets) {
    ASSIGN_OR_RETURN(profd::TargetFilter filter, profd::TargetFilter::Parse(target));
    targets.push_back(std::move(filter));
  }
  ASSIGN_OR_RETURN(const auto name, profd::CompileFilter("thread", choice.thread));
  return [targets = std::move(targets), name](const Thread& thread) {
    const auto matches = [&](const auto& target) {
      return target.Matches(thread.pid, thread.process);
    };
    return (targets.empty() || std::any_of(targets.begin(), targets.end(), matches)) &&
           RE2::PartialMatch(thread.name, *name);
  };
}

}  // namespace

absl::StatusOr<ActivityAnswer> ReceiveActivity(const std::string& server,
                                               const profd::v1::Window& window,
                                               const ThreadChoice& choice,
                                               const FrameChoice& frames) {
  ASSIGN_OR_RETURN(const ThreadFilter selected, FilterOf(choice));
  profd::v1::FetchRequest request;
  *request.mutable_window() = window;
  for (const profd::Kind kind : {profd::Kind::kWaker, profd::Kind::kCpu}) {
    request.add_sample_types(std::string(profd::DescribeSampleType(kind).name));
  }
  request.add_group_by(profd::v1::GROUP_KEY_PROCESS);
  request.add_group_by(profd::v1::GROUP_KEY_THREAD);
  frames.SetRequest(&request);
  ASSIGN_OR_RETURN(Answer received, ReceiveAnswer(server, request));
  ASSIGN_OR_RETURN(received, WithChosenFrames(frames, std::move(received)));
  ActivityAnswer answer = {.answer = std::move(received)};
  answer.activity = ReadActivity(answer.wakers(), answer.cpu(), selected, &answer.roots);
  if (answer.roots.empty() && choice.IsSome()) {
    return absl::NotFoundError("no thread in this window matches --target and --thread");
  }
  return answer;
}

}  // namespace profctl
