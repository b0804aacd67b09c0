#include "client/commands/status.h"

#include <chrono>
#include <memory>

#include "client/io/connection.h"
#include "client/render/status.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::chrono::seconds kConnectTimeout(5);
constexpr std::chrono::seconds kStatusTimeout(30);

}  // namespace

absl::Status PrintStatus(const StatusOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   Connection::Open(options.server, kConnectTimeout));
  grpc::ClientContext context;
  SetDeadline(context, kStatusTimeout);
  profd::v1::GetStatusResponse status;
  RETURN_IF_ERROR(connection->Explain(
      connection->stub().GetStatus(&context, profd::v1::GetStatusRequest(), &status)));
  out << (options.json ? RenderStatusJson(status)
                       : RenderStatusText(status, profd::WallNs(), options.colour))
      << std::flush;
  if (!out.good()) return absl::DataLossError("cannot write to stdout; the answer is cut off");
  return absl::OkStatus();
}

}  // namespace profctl
