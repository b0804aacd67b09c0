#include "client/top/top_json.h"

#include <utility>

#include "client/render/json_parts.h"
#include "client/render/looks.h"
#include "client/render/threads.h"

namespace profctl {

std::string RenderTopJson(const Snapshot& snapshot, const TopRows& rows) {
  using nlohmann::ordered_json;
  ordered_json groups = ordered_json::array();
  for (const TopRow& row : rows.rows) {
    ordered_json threads = ordered_json::array();
    for (const TopThread* thread : row.threads) {
      ordered_json json = LedgerRowJson(thread->ledger);
      json["now"] = nullptr;
      if (thread->look != nullptr) json["now"] = LookJson(*snapshot.looks, *thread->look);
      threads.push_back(std::move(json));
    }
    groups.push_back({{"name", row.label}, {"threads", std::move(threads)}});
  }
  const profd::v1::Profile& message = *snapshot.waits().message;
  ordered_json json = {{"format", "profd-top"},
                       {"version", 1},
                       {"hostname", message.host().hostname()},
                       {"begin_ns", message.coverage().begin_ns()},
                       {"end_ns", message.coverage().end_ns()},
                       {"looked_ns", nullptr},
                       {"left_out", nullptr},
                       {"torn", nullptr},
                       {"error", snapshot.looks_error},
                       {"hidden", rows.filtered + rows.idle_hidden},
                       {"rows", std::move(groups)},
                       {"losses", ToJson(message.losses())}};
  if (snapshot.looks) {
    json["looked_ns"] = snapshot.looks->totals().begin_ns();
    json["left_out"] = snapshot.looks->totals().left_out();
    json["torn"] = snapshot.looks->totals().torn();
  }
  return DumpJson(json);
}

}  // namespace profctl
