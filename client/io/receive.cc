#include "client/io/receive.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::chrono::seconds kConnectTimeout(5);
constexpr std::chrono::minutes kFetchTimeout(5);

void Say(Progress* progress, const std::string& what) {
  if (progress != nullptr) progress->Say("profctl: " + what);
}

}  // namespace

void Canceller::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

bool Canceller::Begin(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  context_ = cancelled_ ? nullptr : context;
  return !cancelled_;
}

void Canceller::End() {
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
}

absl::StatusOr<std::vector<Answer>> ReceiveParts(const std::string& server,
                                                 const StartStream& start,
                                                 const std::vector<std::string>& types,
                                                 uint32_t windows, Progress* progress) {
  Say(progress, "connecting to " + CleanName(server));
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   Connection::Open(server, kConnectTimeout));
  return ReceiveParts(*connection, start, types, windows, nullptr, progress);
}

absl::StatusOr<std::vector<Answer>> ReceiveParts(Connection& connection, const StartStream& start,
                                                 const std::vector<std::string>& types,
                                                 uint32_t windows, Canceller* canceller,
                                                 Progress* progress) {
  grpc::ClientContext context;
  SetDeadline(context, kFetchTimeout);
  if (canceller != nullptr && !canceller->Begin(&context)) {
    return absl::CancelledError("cancelled");
  }
  const auto reader = start(connection.stub(), &context);
  Say(progress, absl::StrCat("waiting for profd at ", CleanName(connection.address())));
  std::vector<ProfileBuilder> builders;
  for (uint32_t window = 0; window < windows; ++window) builders.emplace_back(types, window);
  uint64_t received = 0;
  profd::v1::Profile part;
  absl::Status status;
  while (status.ok() && reader->Read(&part)) {
    received += part.ByteSizeLong();
    Say(progress, "receiving, " + FormatBytes(received) + " so far");
    // The last one refuses windows that were not asked for.
    status = builders[std::min<size_t>(part.window(), builders.size() - 1)].Add(part);
  }
  if (!status.ok()) context.TryCancel();
  const grpc::Status outcome = reader->Finish();
  if (canceller != nullptr) canceller->End();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(connection.Explain(outcome));
  std::vector<Answer> answers;
  for (ProfileBuilder& builder : builders) {
    ASSIGN_OR_RETURN(Answer answer, builder.Finish());
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace profctl
