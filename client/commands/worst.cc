#include "client/commands/worst.h"

#include <utility>
#include <vector>

#include "client/answer/json.h"
#include "client/answer/longest.h"
#include "client/commands/fetch.h"
#include "client/render/worst.h"
#include "daemon/base/status.h"

namespace profctl {

absl::Status PrintWorst(const WorstOptions& options, std::ostream& out) {
  profd::v1::FetchRequest request = options.request;
  options.frames.SetRequest(&request);
  ASSIGN_OR_RETURN(Answer answer, ReceiveAnswer(options.server, request));
  ASSIGN_OR_RETURN(answer, WithChosenFrames(options.frames, std::move(answer)));
  const Profile& profile = answer.profiles.front();
  ASSIGN_OR_RETURN(const std::vector<LongWait> waits, ReadLongest(profile));
  if (options.json) {
    out << RenderJson(answer.message());
  } else {
    out << RenderWorst(profile, waits, options.colour);
  }
  return absl::OkStatus();
}

}  // namespace profctl
