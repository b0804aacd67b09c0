#include "client/render/threads.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/answer/wait_durations.h"
#include "client/answer/watched.h"
#include "client/render/caption.h"
#include "client/render/gaps.h"
#include "client/render/json_parts.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;

// For what it waited longest; null without any waits.
const ReasonInfo* LongestReason(const LedgerRow& row) {
  const ReasonInfo* longest = nullptr;
  for (const ReasonInfo& info : AllReasons()) {
    if (info.reason == profd::v1::REASON_RUNQUEUE || row.off_ns[info.reason] <= 0) continue;
    if (longest == nullptr || row.off_ns[info.reason] > row.off_ns[longest->reason]) {
      longest = &info;
    }
  }
  return longest;
}

class ThreadTable {
 public:
  ThreadTable(const Profile& waits, const std::vector<LedgerRow>& rows)
      : rows_(rows),
        seconds_(static_cast<double>(WindowNs(waits)) / 1e9),
        many_processes_(HasManyProcesses(waits)),
        durations_(std::any_of(rows.begin(), rows.end(),
                               [](const LedgerRow& row) { return !row.durations.empty(); })),
        groups_(std::any_of(rows.begin(), rows.end(),
                            [](const LedgerRow& row) { return row.tid == 0; })),
        allocations_(std::any_of(rows.begin(), rows.end(), [](const LedgerRow& row) {
          return row.allocated_bytes.has_value();
        })) {}

  std::string Render() const {
    std::vector<Table::Column> columns = {{"thread", Table::Align::kLeft}};
    if (groups_) columns.push_back({"n", Table::Align::kRight, 3});
    columns.insert(columns.end(), {{"wall", Table::Align::kRight, 2},
                                   {"on-CPU", Table::Align::kRight},
                                   {"run queue", Table::Align::kRight},
                                   {"blocked", Table::Align::kRight},
                                   {"idle", Table::Align::kRight, 1},
                                   {"most for", Table::Align::kLeft}});
    if (durations_) {
      columns.insert(columns.end(), {{"p50", Table::Align::kRight, 7},
                                     {"p99", Table::Align::kRight, 7},
                                     {"max", Table::Align::kRight, 7},
                                     {"queue p99", Table::Align::kRight, 7}});
    }
    columns.insert(columns.end(), {{"switches/s", Table::Align::kRight, 5},
                                   {"faults/s", Table::Align::kRight, 6}});
    if (allocations_) columns.push_back({"allocated/s", Table::Align::kRight, 4});
    Table table(std::move(columns));
    for (const LedgerRow& row : rows_) table.Add(Cells(row));
    return table.Render();
  }

 private:
  std::vector<std::string> Cells(const LedgerRow& row) const {
    const auto share = [&](int64_t ns) {
      return FormatShare(static_cast<double>(ns), static_cast<double>(row.wall_ns));
    };
    const ReasonInfo* const reason = LongestReason(row);
    std::vector<std::string> cells = {NameOf(row)};
    if (groups_) cells.push_back(FormatCount(row.threads));
    cells.insert(cells.end(),
                 {FormatDuration(row.wall_ns), share(row.on_cpu_ns), share(row.RunQueue()),
                  share(row.Blocked()), share(row.idle_ns), MainReason(row)});
    if (durations_) {
      const profd::Durations& waits =
          DurationsOf(row.durations, reason != nullptr ? reason->reason : Reason{});
      cells.insert(cells.end(),
                   {FormatQuantile(waits, 0.5), FormatQuantile(waits, 0.99), FormatLongest(waits),
                    FormatQuantile(DurationsOf(row.durations, profd::v1::REASON_RUNQUEUE), 0.99)});
    }
    cells.insert(cells.end(), {Rate(row.Switches()), Rate(row.Faults())});
    if (allocations_) {
      const bool known = row.allocated_bytes && seconds_ > 0;
      cells.push_back(known ? FormatBytes(static_cast<uint64_t>(std::llround(
                                  static_cast<double>(*row.allocated_bytes) / seconds_)))
                            : "-");
    }
    return cells;
  }

  std::string NameOf(const LedgerRow& row) const {
    std::string name = NameInProcess(row.process, row.name, many_processes_);
    if (row.tid != 0) absl::StrAppend(&name, " (", row.tid, ")");
    if (row.exited) name += ", exited";
    return name;
  }

  std::string Rate(uint64_t count) const {
    if (count == 0) return "0";
    return seconds_ > 0 ? Significant(static_cast<double>(count) / seconds_) : "-";
  }

  const std::vector<LedgerRow>& rows_;
  const double seconds_;
  const bool many_processes_;
  const bool durations_;
  const bool groups_;
  const bool allocations_;
};

ordered_json ReasonJson(const LedgerRow& row, Reason reason) {
  ordered_json json = {{"time_ns", row.off_ns[reason]}, {"waits", row.waits[reason]}};
  const profd::Durations& durations = DurationsOf(row.durations, reason);
  if (durations.count() > 0) {
    json["measured"] = durations.count();
    json["p50_ns"] = durations.Quantile(0.5);
    json["p99_ns"] = durations.Quantile(0.99);
    json["max_ns"] = durations.Longest();
    json["max_rounded"] = durations.known_longest() == 0;
  }
  return json;
}

}  // namespace

std::string MainReason(const LedgerRow& row) {
  const ReasonInfo* const longest = LongestReason(row);
  if (longest == nullptr) return "";
  return absl::StrCat(std::string(longest->name), " ",
                      FormatShare(static_cast<double>(row.off_ns[longest->reason]),
                                  static_cast<double>(row.wall_ns)));
}

ordered_json LedgerRowJson(const LedgerRow& row) {
  ordered_json off = ordered_json::object();
  for (const ReasonInfo& info : AllReasons()) {
    if (row.off_ns[info.reason] == 0 && row.waits[info.reason] == 0 &&
        !row.durations.contains(info.reason)) {
      continue;
    }
    off[std::string(info.name)] = ReasonJson(row, info.reason);
  }
  ordered_json json = {{"name", row.name},
                       {"process", row.process},
                       {"pid", row.pid},
                       {"tid", row.tid},
                       {"threads", row.threads},
                       {"exited", row.exited},
                       {"wall_ns", row.wall_ns},
                       {"on_cpu_ns", row.on_cpu_ns},
                       {"runqueue_ns", row.RunQueue()},
                       {"blocked_ns", row.Blocked()},
                       {"idle_ns", row.idle_ns},
                       {"estimated_ns", row.estimated_ns},
                       {"off", std::move(off)},
                       {"voluntary_switches", row.voluntary_switches},
                       {"involuntary_switches", row.involuntary_switches},
                       {"minor_faults", row.minor_faults},
                       {"major_faults", row.major_faults},
                       {"read_bytes", row.read_bytes},
                       {"write_bytes", row.write_bytes},
                       {"allocated_bytes", nullptr}};
  if (row.allocated_bytes) json["allocated_bytes"] = *row.allocated_bytes;
  return json;
}

std::string RenderThreadsText(const Profile& waits, const std::vector<LedgerRow>& rows,
                              bool colour) {
  const profd::v1::Coverage& coverage = waits.coverage();
  std::string text = Heading("Threads of " + DescribeProcesses(waits), colour);
  text += Line("  ", DescribeWindowAndHost(waits));
  for (std::string gap : DescribeGaps(waits)) {
    gap[0] = absl::ascii_toupper(static_cast<unsigned char>(gap[0]));
    text += Wrap(gap + ".", PageColumns(), "  ");
  }
  int64_t estimated_ns = 0;
  for (const LedgerRow& row : rows) estimated_ns += row.estimated_ns;
  // A gap is reported above.
  if (estimated_ns > 0 && !HasGap(waits, coverage.switch_ns())) {
    text += Wrap(absl::StrCat("Reasons for ", FormatDuration(estimated_ns),
                              " of waits are estimated from ticks."),
                 PageColumns(), "  ");
  }
  text += "\n";
  if (rows.empty()) return text + "No thread matches in this window.\n";
  return text + ThreadTable(waits, rows).Render();
}

std::string RenderThreadsJson(const Profile& waits, const std::vector<LedgerRow>& rows) {
  ordered_json threads = ordered_json::array();
  for (const LedgerRow& row : rows) threads.push_back(LedgerRowJson(row));
  return DumpJson({{"hostname", waits.message->host().hostname()},
                   {"begin_ns", waits.coverage().begin_ns()},
                   {"end_ns", waits.coverage().end_ns()},
                   {"threads", std::move(threads)},
                   {"losses", ToJson(waits.message->losses())}});
}

}  // namespace profctl
