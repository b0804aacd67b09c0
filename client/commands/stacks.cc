#include "client/commands/stacks.h"

#include <utility>
#include <vector>

#include "client/io/output.h"
#include "client/io/receive.h"
#include "client/render/looks.h"
#include "daemon/base/status.h"

namespace profctl {

namespace {

absl::StatusOr<Looks> ReceiveLooks(const std::string& server, profd::v1::GetStacksRequest request,
                                   const FrameChoice& frames) {
  frames.SetRequest(&request);
  ASSIGN_OR_RETURN(std::vector<Answer> answers,
                   ReceiveParts(
                       server,
                       [&](profd::v1::Profiler::Stub& stub, grpc::ClientContext* context) {
                         return stub.GetStacks(context, request);
                       },
                       {}, 1, nullptr));
  ASSIGN_OR_RETURN(Answer answer, WithChosenFrames(frames, std::move(answers.front())));
  return ReadLooks(std::move(answer));
}

}  // namespace

absl::Status PrintStacks(const StacksOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(const Looks looks,
                   ReceiveLooks(options.server, options.request, options.frames));
  return Print(options.json ? RenderLooksJson(looks)
                            : RenderLooksText(looks, options.show_idle, options.colour),
               out);
}

}  // namespace profctl
