#include "client/commands/locks.h"

#include <utility>

#include "client/answer/json.h"
#include "client/answer/profile.h"
#include "client/answer/view.h"
#include "client/commands/fetch.h"
#include "client/render/findings.h"
#include "daemon/base/status.h"

namespace profctl {

absl::Status PrintLocks(const LocksOptions& options, std::ostream& out) {
  profd::v1::FetchRequest request = options.request;
  request.add_sample_types(std::string(profd::DescribeSampleType(profd::Kind::kLocks).name));
  if (!options.json) request.add_group_by(profd::v1::GROUP_KEY_PROCESS_NAME);
  options.frames.SetRequest(&request);
  ASSIGN_OR_RETURN(Answer answer, ReceiveAnswer(options.server, request));
  ASSIGN_OR_RETURN(answer, WithChosenFrames(options.frames, std::move(answer)));
  const View view = MakeView(answer.profiles.front(), options.show_idle);
  if (options.json) {
    profd::v1::Profile message = WithFindings(answer, {view});
    SortLocks(options.order, &message);
    out << RenderJson(message);
    return absl::OkStatus();
  }
  out << RenderLocks(view, options.order, options.colour);
  return absl::OkStatus();
}

}  // namespace profctl
