#include "client/commands/status.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/answer/name_source.h"
#include "client/commands/fetch.h"
#include "client/io/connection.h"
#include "client/render/status.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::chrono::seconds kConnectTimeout(5);
constexpr std::chrono::seconds kStatusTimeout(30);

constexpr int64_t kNamesNs = 60'000'000'000;

// Of the last minute, of what threads waited for and of what they ran.
std::vector<KindNames> ReadNames(const std::string& server) {
  std::vector<KindNames> names;
  for (const char* kind : {"offcpu", "cpu"}) {
    KindNames& found = names.emplace_back(KindNames{.kind = kind, .shares = {}, .note = {}});
    profd::v1::FetchRequest request;
    request.mutable_window()->set_since_ns(kNamesNs);
    request.add_sample_types(kind);
    const absl::StatusOr<Answer> answer = ReceiveAnswer(server, request);
    if (answer.ok()) {
      found.shares = NameSharesOf(answer->profiles.front());
      if (found.shares.empty()) found.note = "no stacks";
    } else {
      found.note = std::string(answer.status().message());
    }
  }
  return names;
}

}  // namespace

absl::Status PrintStatus(const StatusOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   Connection::Open(options.server, kConnectTimeout));
  grpc::ClientContext context;
  SetDeadline(context, kStatusTimeout);
  profd::v1::GetStatusResponse status;
  RETURN_IF_ERROR(connection->Explain(
      connection->stub().GetStatus(&context, profd::v1::GetStatusRequest(), &status)));
  std::vector<KindNames> names;
  if (options.names) names = ReadNames(options.server);
  out << (options.json ? RenderStatusJson(status, names)
                       : RenderStatusText(status, profd::WallNs(), options.colour, names))
      << std::flush;
  if (!out.good()) return absl::DataLossError("cannot write to stdout; the answer is cut off");
  return absl::OkStatus();
}

}  // namespace profctl
