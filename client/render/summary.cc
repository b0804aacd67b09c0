#include "client/render/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/answer/wait_durations.h"
#include "client/answer/watched.h"
#include "client/render/caption.h"
#include "client/render/disk.h"
#include "client/render/finding_text.h"
#include "client/render/findings.h"
#include "client/render/gaps.h"
#include "client/render/group_rows.h"
#include "client/render/heap.h"
#include "client/render/locks.h"
#include "client/render/memory.h"
#include "client/render/occupants.h"
#include "client/render/quality.h"
#include "client/render/stacks.h"
#include "client/render/summary_memory.h"
#include "client/render/syncs.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr size_t kReasonsColumns = 28;
constexpr size_t kReasonSlots = profd::v1::Reason_ARRAYSIZE;

struct Waiting {
  int64_t time_ns = 0;
  uint64_t waits = 0;
};

using ReasonTotals = std::array<Waiting, kReasonSlots>;

int64_t Blocked(const ReasonTotals& totals) {
  int64_t sum = 0;
  for (size_t r = 0; r < totals.size(); ++r) {
    if (r != profd::v1::REASON_RUNQUEUE) sum += totals[r].time_ns;
  }
  return sum;
}

void AddThread(const Thread& thread, ReasonTotals& totals) {
  for (const profd::v1::ReasonTotal& off : thread.ledger.off()) {
    Waiting& waiting = totals[DescribeReason(off.reason()).reason];
    waiting.time_ns += off.time_ns();
    waiting.waits += off.waits();
  }
}

// Reasons that occurred, the longest time first.
std::vector<Reason> ByTime(const ReasonTotals& totals) {
  std::vector<Reason> reasons;
  for (const ReasonInfo& info : AllReasons()) {
    if (totals[info.reason].time_ns > 0 || totals[info.reason].waits > 0) {
      reasons.push_back(info.reason);
    }
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [&](Reason a, Reason b) { return totals[a].time_ns > totals[b].time_ns; });
  return reasons;
}

struct ThreadRow {
  std::string name;
  uint32_t threads = 0;
  int64_t wall_ns = 0;
  int64_t on_cpu_ns = 0;
  int64_t idle_ns = 0;
  ReasonTotals off{};

  int64_t Busy() const { return wall_ns - on_cpu_ns - idle_ns; }
};

// As many of the longest as fit the column.
std::string TopReasons(const ThreadRow& row) {
  std::string text;
  for (const Reason reason : ByTime(row.off)) {
    const double share = static_cast<double>(row.off[reason].time_ns) /
                         static_cast<double>(std::max<int64_t>(row.wall_ns, 1));
    if (reason == profd::v1::REASON_RUNQUEUE || share < 0.0005) continue;
    const std::string next =
        absl::StrCat(text.empty() ? "" : ", ", std::string(DescribeReason(reason).name), " ",
                     FormatShare(share, 1));
    if (text.size() + next.size() > kReasonsColumns) break;
    text += next;
  }
  return text;
}

void AppendIdentity(const Profile& profile, std::string& text) {
  double worst = 0;
  std::string worst_name;
  int64_t on_cpu = 0, runqueue = 0, books_on_cpu = 0, books_runqueue = 0, estimated = 0;
  for (const Thread& thread : profile.threads) {
    ReasonTotals off{};
    AddThread(thread, off);
    on_cpu += thread.ledger.on_cpu_ns();
    runqueue += off[profd::v1::REASON_RUNQUEUE].time_ns;
    books_on_cpu += thread.ledger.books_on_cpu_ns();
    books_runqueue += thread.ledger.books_runqueue_ns();
    estimated += thread.ledger.estimated_ns();
    if (thread.ledger.wall_ns() <= 0) continue;
    const int64_t sum =
        thread.ledger.on_cpu_ns() + off[profd::v1::REASON_RUNQUEUE].time_ns + Blocked(off);
    const double deviation = std::abs(static_cast<double>(sum - thread.ledger.wall_ns())) /
                             static_cast<double>(thread.ledger.wall_ns());
    if (deviation > worst) {
      worst = deviation;
      worst_name = absl::StrCat(CleanName(thread.name), " (", thread.tid, ")");
    }
  }
  std::string line = "Check: on-CPU + run queue + blocked = wall for every thread";
  if (worst > 0) {
    absl::StrAppend(&line, "; largest deviation ", FormatShare(worst, 1), ", in ", worst_name);
  }
  line += ".";
  if (books_on_cpu > 0) {
    absl::StrAppend(&line, " Kernel accounting: on-CPU ", FormatDuration(books_on_cpu), " (here ",
                    FormatDuration(on_cpu), "), run queue ", FormatDuration(books_runqueue),
                    " (here ", FormatDuration(runqueue), ").");
  }
  // A gap is reported below the heading.
  if (estimated > 0 && !HasGap(profile, profile.coverage().switch_ns())) {
    absl::StrAppend(&line, " Reasons for ", FormatDuration(estimated),
                    " of waits are estimated from ticks.");
  }
  text += Wrap(line, PageColumns(), "  ");
}

void AppendThreads(const View& view, bool colour, std::string& text) {
  const Profile& profile = *view.profile;
  const std::vector<std::string> group_of_thread = ThreadGroupNames(profile);
  std::map<std::string, ThreadRow> groups;
  for (size_t i = 0; i < profile.threads.size(); ++i) {
    const Thread& thread = profile.threads[i];
    ThreadRow& row = groups[group_of_thread[i]];
    ++row.threads;
    row.wall_ns += thread.ledger.wall_ns();
    row.on_cpu_ns += thread.ledger.on_cpu_ns();
    row.idle_ns += thread.ledger.idle_ns();
    AddThread(thread, row.off);
  }
  std::vector<ThreadRow> rows;
  for (auto& [name, row] : groups) {
    row.name = name;
    rows.push_back(row);
  }
  // Of other kinds, answers do not say which waits are idle.
  const bool by_cpu =
      profile.kind->kind == profd::Kind::kCpu || profile.kind->kind == profd::Kind::kSwitch;
  const auto rank = [&](const ThreadRow& row) {
    return std::make_pair(by_cpu ? row.on_cpu_ns : row.Busy(), row.wall_ns);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const ThreadRow& a, const ThreadRow& b) { return rank(a) > rank(b); });

  text += Heading(absl::StrCat("Threads by ", by_cpu ? "time on a CPU" : "non-idle waiting time",
                               " (shares of wall time)"),
                  colour);
  std::vector<Table::Column> columns = {
      {"thread", Table::Align::kLeft},        {"n", Table::Align::kRight, 3},
      {"wall", Table::Align::kRight, 1},      {"on-CPU", Table::Align::kRight},
      {"run queue", Table::Align::kRight, 2}, {"blocked", Table::Align::kRight}};
  if (!by_cpu) columns.push_back({"idle", Table::Align::kRight});
  columns.push_back({"blocked by", Table::Align::kLeft, 4});
  Table table(std::move(columns));
  uint32_t left_threads = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ThreadRow& row = rows[i];
    if (i >= kMostGroupRows) {
      left_threads += row.threads;
      continue;
    }
    const auto wall = static_cast<double>(row.wall_ns);
    const auto share = [&](int64_t ns) { return FormatShare(static_cast<double>(ns), wall); };
    std::vector<std::string> cells = {row.name,
                                      FormatCount(row.threads),
                                      FormatDuration(row.wall_ns),
                                      share(row.on_cpu_ns),
                                      share(row.off[profd::v1::REASON_RUNQUEUE].time_ns),
                                      share(Blocked(row.off))};
    if (!by_cpu) cells.push_back(share(row.idle_ns));
    cells.push_back(TopReasons(row));
    table.Add(std::move(cells));
  }
  text += table.Render();
  text += MoreGroups(rows.size(), left_threads);
  AppendIdentity(profile, text);
}

// Waits that are not over add to the time, and maybe not to the number: what they make longer than
// the longest that is over is the mean of nothing.
std::string FormatMean(int64_t time_ns, uint64_t waits, const profd::Durations& over) {
  if (waits == 0) return "-";
  const auto mean = static_cast<int64_t>(static_cast<double>(time_ns) / static_cast<double>(waits));
  return over.count() > 0 && mean > over.Longest() ? "-" : FormatDuration(mean);
}

void AppendReasons(const Profile& profile, bool colour, std::string& text) {
  ReasonTotals totals{};
  ReasonDurations durations;
  for (const Thread& thread : profile.threads) {
    AddThread(thread, totals);
    AddDurations(thread.ledger.off(), &durations);
  }
  // Waits are counted only while the layer is on; times are complete without it.
  const int64_t switch_ns = profile.coverage().switch_ns();
  const bool counted = switch_ns > 0;
  const bool counted_all = counted && !HasGap(profile, switch_ns);
  double all = 0;
  for (const Waiting& waiting : totals) all += static_cast<double>(waiting.time_ns);
  const bool measured = !durations.empty();
  std::vector<Table::Column> columns = {{"reason", Table::Align::kLeft},
                                        {"time", Table::Align::kRight},
                                        {"share", Table::Align::kRight},
                                        {"waits", Table::Align::kRight, 1},
                                        {"mean wait", Table::Align::kRight, measured ? 4 : 2}};
  if (measured) {
    columns.insert(columns.end(), {{"p50", Table::Align::kRight, 2},
                                   {"p99", Table::Align::kRight, 2},
                                   {"max", Table::Align::kRight, 2}});
  }
  columns.push_back({"waiting for", Table::Align::kLeft, 3});
  Table table(std::move(columns));
  for (const Reason reason : ByTime(totals)) {
    const Waiting& waiting = totals[reason];
    const profd::Durations& waits = DurationsOf(durations, reason);
    // In the run queue, waits that began with a wake-up are in the histogram only.
    const bool run_queue = reason == profd::v1::REASON_RUNQUEUE;
    const uint64_t count = run_queue ? waits.count() : waiting.waits;
    const std::string mean = counted_all ? FormatMean(waiting.time_ns, count, waits) : "-";
    const ReasonInfo& info = DescribeReason(reason);
    std::vector<std::string> cells = {std::string(info.name), FormatDuration(waiting.time_ns),
                                      FormatShare(static_cast<double>(waiting.time_ns), all),
                                      counted && count > 0 ? FormatCount(count) : "-", mean};
    if (measured) {
      cells.insert(cells.end(),
                   {FormatQuantile(waits, 0.5), FormatQuantile(waits, 0.99), FormatLongest(waits)});
    }
    cells.emplace_back(info.meaning);
    table.Add(std::move(cells));
  }
  text += "\n" + Heading(absl::StrCat("Off-CPU time by reason, idle waits included",
                                      measured ? "; p50 and p99 within 20%" : ""),
                         colour);
  text += table.empty() ? "  no off-CPU time in this window\n" : table.Render();
}

void AppendIdle(const View& view, bool colour, std::string& text) {
  const bool locks = view.profile->kind->kind == profd::Kind::kLocks;
  text += "\n" +
          Heading(absl::StrCat(locks ? "Waits that are not contention" : "Idle waits",
                               view.idle_shown ? " (shown)" : " (folded away; --idle shows them)"),
                  colour);
  if (view.idle.empty()) {
    text += "  none\n";
    return;
  }
  Table table({{"kind", Table::Align::kLeft},
               {"time", Table::Align::kRight},
               {"threads", Table::Align::kRight}});
  for (const IdleGroup& group : view.idle) {
    table.Add({std::string(group.name), FormatDuration(group.time_ns), FormatCount(group.threads)});
  }
  if (view.idle.size() > 1) table.Add({"total", FormatDuration(view.idle_ns), ""});
  text += table.Render();
}

// A level: the end of the window.
void AppendLevel(const View& view, bool colour, std::string& text) {
  uint64_t count = 0;
  for (const Sample* sample : view.shown) count += sample->count;
  const bool objects = view.profile->kind->kind == profd::Kind::kInuse;
  text += Heading(absl::StrCat("Total: ", DescribeBytes(*view.profile, view.shown_value),
                               objects ? " (estimated; about " : " (estimated from ",
                               FormatCount(count), objects ? " objects)" : " pages)"),
                  colour);
  AppendStacks(view, colour, text);
  AppendFunctions(view, colour, text);
}

// Bytes of calls in the window.
void AppendCalls(const View& view, bool colour, std::string& text) {
  uint64_t count = 0;
  for (const Sample* sample : view.shown) count += sample->count;
  text += Heading(absl::StrCat("Total: ", DescribeBytes(*view.profile, view.shown_value), " (",
                               FormatCount(count), count == 1 ? " call)" : " calls)"),
                  colour);
  AppendStacks(view, colour, text);
  AppendFunctions(view, colour, text);
}

// Digits of a container's id that tell it from others, as container engines print it.
constexpr size_t kContainerDigits = 12;

// What is known of the processes besides their names: the command and start of a single one, and
// the container if it is the same for all.
void AppendProcesses(const Profile& profile, std::string& text) {
  const auto& processes = profile.message->processes();
  if (processes.empty()) return;
  const profd::v1::Process& first = processes[0];
  if (processes.size() == 1 && !first.command_line().empty()) {
    const std::string label = "  command  ";
    absl::StrAppend(&text, label,
                    Shorten(CleanName(first.command_line()), PageColumns() - label.size()), "\n");
  }
  std::string facts;
  if (processes.size() == 1 && first.started_ns() > 0) {
    facts = "started " + FormatTime(first.started_ns());
  }
  const std::string& container = first.container_id();
  const bool shared = std::all_of(
      processes.begin(), processes.end(),
      [&](const profd::v1::Process& other) { return other.container_id() == container; });
  if (shared && !container.empty()) {
    absl::StrAppend(&facts, facts.empty() ? "" : ", ", "container ",
                    CleanName(container.substr(0, kContainerDigits)));
  }
  if (!facts.empty()) text += Line("  ", facts);
}

void AppendFindings(const View& view, bool colour, std::string& text) {
  const std::vector<profd::v1::Finding> findings = Findings(view);
  if (findings.empty()) return;
  text += Heading("What stands out", colour);
  for (const profd::v1::Finding& finding : findings) {
    text += WrapAfter("  - ", DescribeFinding(finding, NameWidth::kFitting), PageColumns());
  }
  text += "\n";
}

void AppendCounted(const View& view, bool colour, std::string& text) {
  const Profile& profile = *view.profile;
  const uint64_t count = profile.type.count();
  const bool syncs = profile.kind->IsOfSyncs();
  const std::string what = syncs ? "call" : "request";
  text += Heading(absl::StrCat("Total: ", FormatValue(view.shown_value, profile.unit), " (",
                               FormatCount(count), " ", what, count == 1 ? ")" : "s)"),
                  colour);
  if (syncs) {
    AppendSyncs(profile, colour, text);
  } else {
    text += "\n";
    AppendDisks(profile, colour, text);
  }
  AppendStacks(view, colour, text);
  AppendFunctions(view, colour, text);
}

}  // namespace

std::string RenderSummary(const View& view, bool colour) {
  const Profile& profile = *view.profile;
  const profd::v1::Coverage& header = profile.coverage();
  const bool memory = profile.unit == Unit::kBytes;
  const std::string title(profile.kind->title);
  std::string text = Heading(absl::StrCat(title, memory && !profile.kind->level ? " by " : " of ",
                                          DescribeProcesses(profile)),
                             colour);
  text += Line("  ", DescribeWindowAndHost(profile));
  AppendProcesses(profile, text);
  const int64_t missing_ns = header.begin_ns() - header.requested_begin_ns();
  if (header.requested_begin_ns() > 0 && missing_ns > 1'500'000'000) {
    text += Line("  ", absl::StrCat("The window starts ", FormatDuration(missing_ns),
                                    " later than requested: no older data is stored."));
  }
  for (std::string gap : DescribeGaps(profile)) {
    gap[0] = absl::ascii_toupper(static_cast<unsigned char>(gap[0]));
    text += Wrap(gap + ".", PageColumns(), "  ");
  }
  if (!view.filter.empty()) {
    text += Wrap("Filter: " + CleanName(view.filter), PageColumns(), "  ");
  }
  const std::string held =
      DescribeMemoryLine(profile.message->memory(), profile.message->memory().heap_ns());
  if (!held.empty()) text += WrapAfter("  memory  ", held, PageColumns());
  text += "\n";
  AppendFindings(view, colour, text);
  if (profile.threads.empty()) {
    text += "No thread matches in this window.\n";
  } else if (profile.kind->level) {
    AppendLevel(view, colour, text);
  } else if (profile.kind->IsCounted()) {
    AppendCounted(view, colour, text);
  } else if (profile.kind->IsOfCalls()) {
    AppendCalls(view, colour, text);
  } else if (memory) {
    const std::optional<profd::v1::HeapTotal> heap = SumHeap(profile);
    if (profile.type.watched_ns() > 0 && heap) {
      AppendMemory(view, *heap, colour, text);
    } else {
      absl::StrAppend(&text, "No ", std::string(profile.kind->events), " were recorded.\n");
    }
  } else if (!profile.kind->IsOfWaits()) {
    AppendThreads(view, colour, text);
    if (profile.kind->HasReasons()) AppendReasons(profile, colour, text);
    AppendStacks(view, colour, text);
    AppendFunctions(view, colour, text);
  } else {
    AppendThreads(view, colour, text);
    if (profile.kind->kind == profd::Kind::kLocks) {
      AppendLocks(view, colour, text);
    } else if (profile.kind->kind == profd::Kind::kRunQueue) {
      AppendOccupants(profile, colour, text);
    } else {
      AppendReasons(profile, colour, text);
      AppendSyncs(profile, colour, text);
    }
    AppendStacks(view, colour, text);
    AppendIdle(view, colour, text);
  }
  AppendQuality(profile, colour, text);
  return text;
}

}  // namespace profctl
