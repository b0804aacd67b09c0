#include "client/commands/threads.h"

#include <vector>

#include "client/commands/fetch.h"
#include "client/io/output.h"
#include "client/render/threads.h"
#include "daemon/base/status.h"
#include "daemon/profile/sample_type.h"

namespace profctl {

absl::Status PrintThreads(const ThreadsOptions& options, std::ostream& out) {
  profd::v1::FetchRequest request = options.request;
  for (const profd::Kind kind : {profd::Kind::kWait, profd::Kind::kAlloc}) {
    request.add_sample_types(std::string(profd::DescribeSampleType(kind).name));
  }
  // The samples are of no use here: as few as can be.
  request.add_group_by(profd::v1::GROUP_KEY_PROCESS_NAME);
  ASSIGN_OR_RETURN(const Answer answer, ReceiveAnswer(options.server, request, nullptr));
  const Profile& waits = answer.profiles[0];
  const std::vector<LedgerRow> rows =
      LedgerRows(waits, &answer.profiles[1], options.by_name, options.sort);
  return Print(options.json ? RenderThreadsJson(waits, rows)
                            : RenderThreadsText(waits, rows, options.colour),
               out);
}

}  // namespace profctl
