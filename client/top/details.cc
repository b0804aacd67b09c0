#include "client/top/details.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/render/look_groups.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

// The details name so many threads of a group.
constexpr size_t kMostNamed = 8;
// Functions and lines of text are cut here at the latest, so that no line is of arbitrary length.
constexpr size_t kWidestText = 1000;

std::string PerSecond(uint64_t count, double seconds) {
  if (count == 0) return "0";
  return seconds > 0 ? Significant(static_cast<double>(count) / seconds) : "-";
}

std::string BytesPerSecond(int64_t bytes, double seconds) {
  if (seconds <= 0) return "-";
  return FormatBytes(static_cast<uint64_t>(
             std::llround(std::max(0.0, static_cast<double>(bytes)) / seconds))) +
         "/s";
}

std::string ShareOf(int64_t ns, const LedgerRow& row) {
  return FormatShare(static_cast<double>(ns), static_cast<double>(row.wall_ns));
}

std::string NameOf(const Snapshot& snapshot, const ThreadLook& look) {
  const Thread& thread = snapshot.looks->profile().threads[look.thread];
  return absl::StrCat(CleanName(thread.name), " (", thread.tid, ")");
}

class DetailPage {
 public:
  DetailPage(const Snapshot& snapshot, const TopRow& row, size_t columns)
      : snapshot_(snapshot), row_(row), columns_(std::clamp<size_t>(columns, 20, kWidestText)) {}

  std::vector<StyledLine> Render() {
    Text(row_.label, Style::kTitle);
    const LedgerRow& first = row_.threads.front()->ledger;
    if (row_.threads.size() > 1) {
      Text(CountThreads(row_.threads.size()));
    } else if (first.tid != 0) {
      Text(absl::StrCat("thread ", first.tid, " of ", CleanName(first.process), " (", first.pid,
                        ")"));
    }
    AppendLedger();
    AppendNow();
    return std::move(lines_);
  }

 private:
  void Text(const std::string& text, Style style = Style::kPlain) {
    for (const auto& line : absl::StrSplit(Wrap(text, columns_, ""), '\n', absl::SkipEmpty())) {
      lines_.push_back({{ClipEnd(std::string(line), columns_), style}});
    }
  }

  void Blank() { lines_.emplace_back(); }

  void AppendLedger() {
    const LedgerRow& ledger = row_.ledger;
    const double seconds = snapshot_.seconds();
    Blank();
    Text(absl::StrCat("In the last ", FormatDuration(WindowNs(snapshot_.waits()))),
         Style::kHeading);
    if (ledger.wall_ns == 0) return Text("Nothing is known yet: it has just begun.");
    Table table({{"", Table::Align::kLeft},
                 {"time", Table::Align::kRight, 0, 8},
                 {"share", Table::Align::kRight, 0, 6},
                 {"waits/s", Table::Align::kRight, 2, 7},
                 {"mean", Table::Align::kRight, 1, 7}});
    table.Add(
        {"on CPU", FormatDuration(ledger.on_cpu_ns), ShareOf(ledger.on_cpu_ns, ledger), "", ""});
    for (const ReasonInfo& info : AllReasons()) {
      const int64_t ns = ledger.off_ns[info.reason];
      const uint64_t waits = ledger.waits[info.reason];
      if (ns == 0 && waits == 0) continue;
      table.Add({info.reason == profd::v1::REASON_RUNQUEUE ? "run queue" : std::string(info.name),
                 FormatDuration(ns), ShareOf(ns, ledger), PerSecond(waits, seconds),
                 waits == 0 ? "-" : FormatDuration(ns / static_cast<int64_t>(waits))});
    }
    for (const std::vector<std::string>& cells : table.Cells(columns_)) {
      lines_.push_back(
          {{ClipEnd(absl::StrCat(cells[0], cells[1], cells[2], cells[3], cells[4]), columns_),
            Style::kPlain}});
    }
    Text(absl::StrCat(
        "Idle ", ShareOf(ledger.idle_ns, ledger),
        ". Switches: ", PerSecond(ledger.voluntary_switches, seconds), "/s by waits, ",
        PerSecond(ledger.involuntary_switches, seconds),
        "/s preempted. Faults: ", PerSecond(ledger.Faults(), seconds), "/s. Block I/O: read ",
        BytesPerSecond(static_cast<int64_t>(ledger.read_bytes), seconds), ", written ",
        BytesPerSecond(static_cast<int64_t>(ledger.write_bytes), seconds), ". Allocated: ",
        ledger.allocated_bytes ? BytesPerSecond(*ledger.allocated_bytes, seconds) : "not known",
        "."));
  }

  void AppendNow() {
    Blank();
    Text("Now", Style::kHeading);
    if (!snapshot_.looks) return Text(CleanName(snapshot_.looks_error), Style::kError);
    std::vector<const ThreadLook*> looks;
    for (const TopThread* thread : row_.threads) {
      if (thread->look != nullptr) looks.push_back(thread->look);
    }
    if (looks.empty()) return Text("It has exited.");
    const Profile& profile = snapshot_.looks->profile();
    bool first = true;
    for (const LookGroup& group : GroupLooks(profile, looks)) {
      if (!std::exchange(first, false)) Blank();
      AppendGroup(profile, group);
    }
  }

  void AppendGroup(const Profile& profile, const LookGroup& group) {
    const ThreadLook& look = group.longest();
    std::string head = absl::StrCat(DescribeNow(&look), " for ", DurationOf(look));
    if (const std::string object = ObjectOf(look); !object.empty()) {
      absl::StrAppend(&head, ", ", object);
    }
    if (row_.threads.size() > 1) absl::StrAppend(&head, ": ", NameOf(snapshot_, look));
    const size_t named = std::min(group.looks.size(), kMostNamed);
    for (size_t i = 1; i < named; ++i) {
      absl::StrAppend(&head, ", ", NameOf(snapshot_, *group.looks[i]));
    }
    if (named < group.looks.size()) {
      absl::StrAppend(&head, " and ", FormatCount(group.looks.size() - named), " more");
    }
    Text(head, StyleOf(&look));
    for (const std::string& function : FunctionsOf(profile, look)) {
      lines_.push_back({{"  " + Shorten(function, columns_ - 2), Style::kPlain}});
    }
    if (look.Runs()) Text("  (no stack of what runs; 'profctl fetch --kind cpu' has samples)");
  }

  const Snapshot& snapshot_;
  const TopRow& row_;
  const size_t columns_;
  std::vector<StyledLine> lines_;
};

}  // namespace

Style StyleOf(const ThreadLook* look) {
  if (look == nullptr || !look->idle.empty()) return Style::kDim;
  switch (look->reason) {
    case profd::v1::REASON_ON_CPU:
      return Style::kOnCpu;
    case profd::v1::REASON_RUNQUEUE:
      return Style::kRunQueue;
    case profd::v1::REASON_LOCK:
      return Style::kLock;
    case profd::v1::REASON_DISK:
    case profd::v1::REASON_FSYNC:
      return Style::kDisk;
    default:
      return Style::kWait;
  }
}

std::vector<StyledLine> DetailLines(const Snapshot& snapshot, const TopRow& row, size_t columns) {
  return DetailPage(snapshot, row, columns).Render();
}

std::vector<StyledLine> RowLines(const Snapshot& snapshot, const std::vector<TopRow>& rows,
                                 Grouping grouping, size_t columns) {
  const bool groups = grouping != Grouping::kThread;
  const bool allocations = std::any_of(rows.begin(), rows.end(), [](const TopRow& row) {
    return row.ledger.allocated_bytes.has_value();
  });
  const double seconds = snapshot.seconds();
  std::vector<Table::Column> headings = {
      {std::string(DescribeGrouping(grouping).name), Table::Align::kLeft, 0, 12}};
  if (groups) headings.push_back({"n", Table::Align::kRight, 0, 3});
  headings.insert(headings.end(), {{"on-CPU", Table::Align::kRight, 0, 6},
                                   {"run q", Table::Align::kRight, 3, 6},
                                   {"blocked", Table::Align::kRight, 2},
                                   {"idle", Table::Align::kRight, 5, 6},
                                   {"switches/s", Table::Align::kRight, 6}});
  if (allocations) headings.push_back({"allocated/s", Table::Align::kRight, 7});
  const size_t now_column = headings.size();
  headings.insert(headings.end(), {{"now", Table::Align::kLeft, 0, 9},
                                   {"for", Table::Align::kRight, 1, 8},
                                   {"in", Table::Align::kLeft, 4}});
  Table table(std::move(headings));
  for (const TopRow& row : rows) {
    const LedgerRow& ledger = row.ledger;
    std::vector<std::string> cells = {row.label};
    if (groups) cells.push_back(FormatCount(row.threads.size()));
    cells.insert(cells.end(),
                 {ShareOf(ledger.on_cpu_ns, ledger), ShareOf(ledger.RunQueue(), ledger),
                  ShareOf(ledger.Blocked(), ledger), ShareOf(ledger.idle_ns, ledger),
                  PerSecond(ledger.Switches(), seconds)});
    if (allocations) {
      cells.push_back(ledger.allocated_bytes ? BytesPerSecond(*ledger.allocated_bytes, seconds)
                                             : "-");
    }
    cells.insert(cells.end(),
                 {row.now, row.longest() == nullptr ? "" : DurationOf(*row.longest()), row.where});
    table.Add(std::move(cells));
  }
  std::vector<StyledLine> lines;
  for (const std::vector<std::string>& cells : table.Cells(columns)) {
    StyledLine line;
    for (size_t c = 0; c < cells.size(); ++c) {
      const bool is_now = !lines.empty() && c == now_column;
      line.push_back({cells[c], lines.empty() ? Style::kHeading
                                : is_now      ? StyleOf(rows[lines.size() - 1].longest())
                                              : Style::kPlain});
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace profctl
