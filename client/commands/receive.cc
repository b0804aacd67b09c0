#include "client/commands/receive.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/text.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::chrono::seconds kConnectTimeout(5);
constexpr std::chrono::minutes kFetchTimeout(5);

}  // namespace

absl::StatusOr<std::vector<Answer>> ReceiveParts(const std::string& server,
                                                 const StartStream& start,
                                                 const std::vector<std::string>& types,
                                                 uint32_t windows, Progress* progress) {
  const auto say = [&](const std::string& what) {
    if (progress != nullptr) progress->Say("profctl: " + what);
  };
  say("connecting to " + CleanName(server));
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   Connection::Open(server, kConnectTimeout));
  grpc::ClientContext context;
  SetDeadline(context, kFetchTimeout);
  const auto reader = start(connection->stub(), &context);
  say(absl::StrCat("waiting for profd at ", CleanName(server)));
  std::vector<ProfileBuilder> builders;
  for (uint32_t window = 0; window < windows; ++window) builders.emplace_back(types, window);
  uint64_t received = 0;
  profd::v1::Profile part;
  absl::Status status;
  while (status.ok() && reader->Read(&part)) {
    received += part.ByteSizeLong();
    say("receiving, " + FormatBytes(received) + " so far");
    // The last one refuses windows that were not asked for.
    status = builders[std::min<size_t>(part.window(), builders.size() - 1)].Add(part);
  }
  if (!status.ok()) context.TryCancel();
  const grpc::Status outcome = reader->Finish();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(connection->Explain(outcome));
  std::vector<Answer> answers;
  for (ProfileBuilder& builder : builders) {
    ASSIGN_OR_RETURN(Answer answer, builder.Finish());
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace profctl
