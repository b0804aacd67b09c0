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
#include "client/name_source.h"
#include "client/render/cost.h"
#include "client/render/gaps.h"
#include "client/render/heap.h"
#include "client/render/memory.h"
#include "client/render/stacks.h"
#include "client/render/table.h"
#include "client/text.h"

namespace profctl {
namespace {

constexpr size_t kReasonsColumns = 28;
constexpr size_t kMostThreadRows = 15;
constexpr size_t kReasonSlots = profd::v1::REASON_OTHER + 1;

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

// The reasons by their time, the longest first, without those that took none.
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

// As many of the longest as fit their column.
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
    absl::StrAppend(&line, ", but for at most ", FormatShare(worst, 1), " in ", worst_name);
  }
  line += ".";
  if (books_on_cpu > 0) {
    absl::StrAppend(&line, " The kernel's own books say on-CPU ", FormatDuration(books_on_cpu),
                    " (here ", FormatDuration(on_cpu), "), run queue ",
                    FormatDuration(books_runqueue), " (here ", FormatDuration(runqueue), ").");
  }
  // With a gap that is told under the heading.
  if (estimated > 0 && !HasGap(profile, profile.coverage().switch_ns())) {
    absl::StrAppend(&line, " The reasons of ", FormatDuration(estimated),
                    " of waits are estimated from the ticks.");
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
  std::stable_sort(rows.begin(), rows.end(), [](const ThreadRow& a, const ThreadRow& b) {
    return std::make_pair(a.Busy(), a.wall_ns) > std::make_pair(b.Busy(), b.wall_ns);
  });

  text +=
      Heading("Threads, those that waited most for something first (shares of wall time)", colour);
  Table table({{"thread", Table::Align::kLeft, 22},
               {"n", Table::Align::kRight},
               {"wall", Table::Align::kRight},
               {"on-CPU", Table::Align::kRight},
               {"run queue", Table::Align::kRight},
               {"blocked", Table::Align::kRight},
               {"idle", Table::Align::kRight},
               {"blocked by", Table::Align::kLeft, kReasonsColumns}});
  uint32_t left_threads = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ThreadRow& row = rows[i];
    if (i >= kMostThreadRows) {
      left_threads += row.threads;
      continue;
    }
    const auto wall = static_cast<double>(row.wall_ns);
    const auto share = [&](int64_t ns) { return FormatShare(static_cast<double>(ns), wall); };
    table.Add({row.name, FormatCount(row.threads), FormatDuration(row.wall_ns),
               share(row.on_cpu_ns), share(row.off[profd::v1::REASON_RUNQUEUE].time_ns),
               share(Blocked(row.off)), share(row.idle_ns), TopReasons(row)});
  }
  text += table.Render();
  if (left_threads > 0) {
    absl::StrAppend(&text, "  and ", rows.size() - kMostThreadRows, " more groups with ",
                    FormatCount(left_threads), " threads\n");
  }
  AppendIdentity(profile, text);
}

void AppendReasons(const Profile& profile, bool colour, std::string& text) {
  ReasonTotals totals{};
  for (const Thread& thread : profile.threads) AddThread(thread, totals);
  double all = 0;
  for (const Waiting& waiting : totals) all += static_cast<double>(waiting.time_ns);
  Table table({{"reason", Table::Align::kLeft},
               {"time", Table::Align::kRight},
               {"share", Table::Align::kRight},
               {"waits", Table::Align::kRight},
               {"mean wait", Table::Align::kRight},
               {"what it is", Table::Align::kLeft, 46}});
  for (const Reason reason : ByTime(totals)) {
    const Waiting& waiting = totals[reason];
    const std::string mean =
        waiting.waits == 0
            ? "-"
            : FormatDuration(static_cast<int64_t>(static_cast<double>(waiting.time_ns) /
                                                  static_cast<double>(waiting.waits)));
    const ReasonInfo& info = DescribeReason(reason);
    table.Add({std::string(info.name), FormatDuration(waiting.time_ns),
               FormatShare(static_cast<double>(waiting.time_ns), all), FormatCount(waiting.waits),
               mean, std::string(info.meaning)});
  }
  text += "\n" + Heading("Why they did not run, idle waits included", colour);
  text += table.empty() ? "  no thread was off a CPU in this window\n" : table.Render();
}

void AppendIdle(const View& view, bool colour, std::string& text) {
  text += "\n" + Heading(view.idle_shown ? "Idle waits, shown" : "Idle waits, folded away", colour);
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
  if (view.idle.size() > 1) table.Add({"together", FormatDuration(view.idle_ns), ""});
  text += table.Render();
}

struct MemoryRow {
  std::string name;
  uint32_t threads = 0;
  profd::v1::HeapTotal heap;
};

void AppendMemoryThreads(const Profile& profile, const profd::v1::HeapTotal& all, bool colour,
                         std::string& text) {
  const SampleTypeInfo& kind = *profile.kind;
  const std::vector<std::string> group_of_thread = ThreadGroupNames(profile);
  std::map<std::string, MemoryRow> groups;
  uint64_t unknown = 0;
  for (size_t i = 0; i < profile.threads.size(); ++i) {
    const Thread& thread = profile.threads[i];
    if (!thread.heap) {
      ++unknown;
      continue;
    }
    MemoryRow& row = groups[group_of_thread[i]];
    row.name = group_of_thread[i];
    ++row.threads;
    AddHeap(*thread.heap, row.heap);
  }
  std::vector<MemoryRow> rows;
  for (auto& [name, row] : groups) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const MemoryRow& a, const MemoryRow& b) {
    return a.heap.bytes() > b.heap.bytes();
  });

  text +=
      Heading(absl::StrCat("Threads, those that ", std::string(kind.done), " most first"), colour);
  Table table({{"thread", Table::Align::kLeft, 30},
               {"n", Table::Align::kRight},
               {std::string(kind.done), Table::Align::kRight},
               {"share", Table::Align::kRight},
               {"rate", Table::Align::kRight},
               {"events", Table::Align::kRight},
               {"coverage", Table::Align::kRight}});
  uint64_t left_threads = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const MemoryRow& row = rows[i];
    if (i >= kMostThreadRows) {
      left_threads += row.threads;
      continue;
    }
    table.Add({row.name, FormatCount(row.threads), FormatValue(row.heap.bytes(), profile.unit),
               FormatShare(static_cast<double>(row.heap.bytes()), static_cast<double>(all.bytes())),
               FormatByteRate(row.heap.bytes(), WatchedNs(profile)), FormatCount(row.heap.events()),
               FormatCoverage(row.heap)});
  }
  text += table.Render();
  if (left_threads > 0) {
    absl::StrAppend(&text, "  and ", rows.size() - kMostThreadRows, " more groups with ",
                    FormatCount(left_threads), " threads\n");
  }
  if (unknown > 0) {
    absl::StrAppend(&text, "  ", FormatCount(unknown), " of ", FormatCount(profile.threads.size()),
                    " threads are not known to have ", std::string(kind.done), " anything\n");
  }
}

void AppendMemory(const View& view, const profd::v1::HeapTotal& heap, bool colour,
                  std::string& text) {
  const Profile& profile = *view.profile;
  text += Heading(absl::StrCat("Total: ", DescribeBytes(profile, heap.bytes()), " (",
                               DescribeSource(profile, heap), ")"),
                  colour);
  text += "\n";
  AppendMemoryThreads(profile, heap, colour, text);
  AppendStacks(view, colour, text);
  AppendFunctions(view, colour, text);
}

// What the stacks of an off-CPU profile are made of.
void AppendTickTrust(const Profile& profile, std::string& text) {
  const profd::v1::Coverage& header = profile.coverage();
  const auto window = static_cast<double>(WindowNs(profile));
  const auto layer = [&](const char* name, int64_t ns) {
    return absl::StrCat(name, " ", FormatShare(static_cast<double>(ns), window));
  };
  absl::StrAppend(&text, "  layers on      ", layer("kernel's books", header.books_ns()), ", ",
                  layer("per switch", header.switch_ns()), ", ", layer("ticks", header.tick_ns()),
                  " of the window\n");
  absl::StrAppend(&text, "  samples        ", FormatCount(profile.type.count()), " in ",
                  FormatCount(header.ticks()), " ticks, one in ",
                  FormatDuration(header.tick_interval_ns()), "; ",
                  FormatCount(header.ticks_missed()), " ticks missed\n");
  if (profile.type.count() > 0) {
    absl::StrAppend(&text, "  whole stacks   ", FormatShare(profile.type.complete_share(), 1),
                    " of the time; ", FormatCount(header.torn_walks()), " of ",
                    FormatCount(header.walks()), " walks were torn\n");
  }
}

// What there is at the end of the window.
void AppendLevel(const View& view, bool colour, std::string& text) {
  uint64_t count = 0;
  for (const Sample* sample : view.shown) count += sample->count;
  const bool objects = view.profile->kind->kind == profd::Kind::kInuse;
  text += Heading(absl::StrCat("Total: ", DescribeBytes(*view.profile, view.shown_value),
                               objects ? " (estimated, as are its " : " (estimated from ",
                               FormatCount(count), objects ? " objects)" : " pages)"),
                  colour);
  AppendStacks(view, colour, text);
  AppendFunctions(view, colour, text);
}

// What calls did in the window.
void AppendCalls(const View& view, bool colour, std::string& text) {
  uint64_t count = 0;
  for (const Sample* sample : view.shown) count += sample->count;
  text += Heading(absl::StrCat("Total: ", DescribeBytes(*view.profile, view.shown_value), " (",
                               FormatCount(count), count == 1 ? " call" : " calls", " counted)"),
                  colour);
  AppendStacks(view, colour, text);
  AppendFunctions(view, colour, text);
}

// What the stacks of a profile of levels are made of.
void AppendLevelTrust(const Profile& profile, std::string& text) {
  absl::StrAppend(
      &text, "  watched        ",
      FormatShare(static_cast<double>(WatchedNs(profile)), static_cast<double>(WindowNs(profile))),
      " of the window\n");
  if (HasSamples(profile)) {
    absl::StrAppend(&text, "  whole stacks   ", FormatShare(profile.type.complete_share(), 1),
                    " of the bytes\n");
  }
}

// What the stacks of a profile of bytes are made of.
void AppendEventTrust(const Profile& profile, std::string& text) {
  absl::StrAppend(
      &text, "  watched        ",
      FormatShare(static_cast<double>(WatchedNs(profile)), static_cast<double>(WindowNs(profile))),
      " of the window\n");
  const profd::v1::HeapTotal heap = SumHeap(profile).value_or(profd::v1::HeapTotal());
  absl::StrAppend(&text, "  events         ", FormatCount(heap.events()));
  if (heap.events() > 0) {
    const double each =
        static_cast<double>(heap.weight_bytes()) / static_cast<double>(heap.events());
    absl::StrAppend(&text, ", one in ",
                    FormatValue(static_cast<int64_t>(std::round(each)), profile.unit));
  }
  text += "\n";
  if (heap.events() > 0 || heap.gaps() > 0) {
    std::string coverage = absl::StrCat(FormatCoverage(heap), " of the bytes of all events");
    if (heap.gaps() > 0) absl::StrAppend(&coverage, "; ", DescribeUnseen(heap));
    text += WrapAfter("  coverage       ", coverage, PageColumns());
  }
  if (HasSamples(profile)) {
    absl::StrAppend(&text, "  whole stacks   ", FormatShare(profile.type.complete_share(), 1),
                    " of the bytes\n");
  }
}

void AppendTrust(const Profile& profile, bool colour, std::string& text) {
  const profd::v1::Coverage& header = profile.coverage();
  text += "\n" + Heading("How far this can be trusted", colour);
  switch (profile.unit) {
    case Unit::kNanoseconds:
      AppendTickTrust(profile, text);
      break;
    case Unit::kBytes:
      if (profile.kind->level || profile.kind->IsOfCalls()) {
        AppendLevelTrust(profile, text);
      } else {
        AppendEventTrust(profile, text);
      }
      break;
  }
  if (const std::string names = DescribeNameShares(profile); !names.empty()) {
    text += WrapAfter("  names          ", names, PageColumns());
  }
  const profd::v1::Cost& cost = profile.message->cost();
  const int64_t duration_ns = cost.duration_ns() > 0 ? cost.duration_ns() : WindowNs(profile);
  text += WrapAfter("  cost, daemon   ", DescribeDaemonCost(cost, duration_ns), PageColumns());
  text += WrapAfter("  cost, in path  ",
                    DescribePathCost(cost, duration_ns, !HasGap(profile, header.switch_ns())),
                    PageColumns());
  if (profile.message->losses().empty()) {
    text += "  lost           nothing\n";
    return;
  }
  for (const profd::v1::Loss& loss : profile.message->losses()) {
    absl::StrAppend(&text, "  lost           ", FormatCount(loss.count()), " ",
                    CleanName(loss.cause()));
    if (loss.weight_ns() > 0) absl::StrAppend(&text, ", ", FormatDuration(loss.weight_ns()));
    if (loss.weight_bytes() > 0) {
      absl::StrAppend(&text, ", ", FormatBytes(static_cast<uint64_t>(loss.weight_bytes())));
    }
    text += "\n" + Wrap(CleanName(loss.help()), PageColumns(), "                 ");
  }
}

}  // namespace

std::string RenderSummary(const View& view, bool colour) {
  const Profile& profile = *view.profile;
  const profd::v1::Coverage& header = profile.coverage();
  const bool memory = profile.unit == Unit::kBytes;
  const std::string title(profile.kind->title);
  std::string text =
      Heading(ClipEnd(absl::StrCat(title, memory && !profile.kind->level ? " by " : " of ",
                                   DescribeProcesses(profile)),
                      PageColumns()),
              colour);
  absl::StrAppend(&text, "  ", FormatTime(header.begin_ns()), " to ", FormatTime(header.end_ns()),
                  " (", FormatDuration(WindowNs(profile)), ") on ",
                  CleanName(profile.message->host().hostname()), "\n");
  const int64_t missing_ns = header.begin_ns() - header.requested_begin_ns();
  if (header.requested_begin_ns() > 0 && missing_ns > 1'500'000'000) {
    absl::StrAppend(&text, "  The window begins ", FormatDuration(missing_ns),
                    " later than asked for: nothing older is stored.\n");
  }
  for (std::string gap : DescribeGaps(profile)) {
    gap[0] = absl::ascii_toupper(static_cast<unsigned char>(gap[0]));
    text += Wrap(gap + ".", PageColumns(), "  ");
  }
  if (!view.filter.empty()) {
    text += Wrap("Stacks only of: " + CleanName(view.filter), PageColumns(), "  ");
  }
  const std::string held =
      DescribeMemoryLine(profile.message->memory(), profile.message->memory().heap_ns());
  if (!held.empty()) text += WrapAfter("  memory  ", held, PageColumns());
  text += "\n";
  if (profile.threads.empty()) {
    text += "No thread matches in this window.\n";
  } else if (profile.kind->level) {
    AppendLevel(view, colour, text);
  } else if (profile.kind->IsOfCalls()) {
    AppendCalls(view, colour, text);
  } else if (memory) {
    const std::optional<profd::v1::HeapTotal> heap = SumHeap(profile);
    if (profile.type.watched_ns() > 0 && heap) {
      AppendMemory(view, *heap, colour, text);
    } else {
      text += "Nothing was counted.\n";
    }
  } else {
    AppendThreads(view, colour, text);
    AppendReasons(profile, colour, text);
    AppendStacks(view, colour, text);
    AppendIdle(view, colour, text);
  }
  AppendTrust(profile, colour, text);
  return text;
}

}  // namespace profctl
