#include "client/render/locks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/render/caption.h"
#include "client/render/estimate.h"
#include "client/render/gaps.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

using profd::v1::LockPlace;
using profd::v1::LockUse;
using profd::v1::WaitCount;

constexpr size_t kMostRows = 20;
constexpr size_t kMostDetailed = 5;

uint64_t Rank(LockOrder order, const LockUse& lock) {
  switch (order) {
    case LockOrder::kTime:
      return static_cast<uint64_t>(std::max<int64_t>(lock.time_ns(), 0));
    case LockOrder::kSamples:
      return lock.samples();
    case LockOrder::kThreads:
      return lock.threads();
  }
  return 0;
}

// Contention comes first.
bool ComesBefore(LockOrder order, const LockUse& a, const LockUse& b) {
  if (a.idle().empty() != b.idle().empty()) return a.idle().empty();
  return Rank(order, a) > Rank(order, b);
}

std::string PlusMinus(int64_t value, int64_t error) {
  return absl::StrCat(FormatDuration(value), " ± ", FormatDuration(error));
}

// Off-CPU time of all threads that is not idle.
int64_t BusyNs(const Profile& profile) {
  int64_t sum = 0;
  for (const Thread& thread : profile.threads) {
    for (const profd::v1::ReasonTotal& off : thread.ledger.off()) sum += off.time_ns();
    sum -= thread.ledger.idle_ns();
  }
  return sum;
}

// "flush (redis-server/bio_aof)", "[timer]".
std::string DescribeReleaser(const LockPlace& place) {
  const std::string waker = CleanName(place.waker());
  if (place.function().empty()) return waker.empty() ? "[waker unknown]" : waker;
  return absl::StrCat(CleanName(place.function()), " (", waker, ")");
}

std::string TopWaiter(const LockUse& lock) {
  return lock.waiters().empty() ? "-" : CleanName(lock.waiters(0).function());
}

// Who released the lock most often, and the share of that in the waiting time if others did too or
// some are unknown.
std::string TopReleaser(const LockUse& lock) {
  if (lock.releasers().empty()) return lock.release_unknown_ns() > 0 ? "[waker unknown]" : "-";
  const LockPlace& top = lock.releasers(0);
  const bool only = lock.releasers_size() == 1 && lock.release_unknown_ns() <= 0 &&
                    lock.release_left_out_ns() <= 0;
  std::string who = DescribeReleaser(top);
  if (!only) {
    absl::StrAppend(
        &who, ", ",
        FormatShare(static_cast<double>(top.time_ns()), static_cast<double>(lock.time_ns())));
  }
  return who;
}

std::string DescribeProcess(const Profile& profile, const LockUse& lock) {
  const profd::v1::Process& process = profile.message->processes(static_cast<int>(lock.process()));
  if (lock.processes() > 1) {
    return absl::StrCat(CleanName(process.name()), " (", FormatCount(lock.processes()),
                        " processes)");
  }
  return absl::StrCat(CleanName(process.name()), " (", process.pid(), ")");
}

// "1,820 ± 12"; "-" if it is not known.
std::string NumberText(bool known, uint64_t number, uint64_t error) {
  if (!known) return "-";
  if (error == 0) return FormatCount(number);
  return absl::StrCat(FormatCount(number), " ± ", FormatCount(error));
}

std::string WaitsText(bool known, const WaitCount& count) {
  return NumberText(known, count.waits(), count.waits_error());
}

std::string QuantileText(int64_t ns) { return ns > 0 ? FormatDuration(ns) : "-"; }

// "1,820 ± 12, p50 40.3 ms (33.6 ms to 50.3 ms), p99 ..., 3 ± 1 timed out".
std::string DescribeWaits(const WaitCount& count) {
  std::string text = WaitsText(true, count);
  const auto quantile = [&](const char* name, int64_t ns, int64_t low, int64_t high) {
    if (ns <= 0) return;
    absl::StrAppend(&text, ", ", name, " ", FormatDuration(ns), " (", FormatDuration(low), " to ",
                    FormatDuration(high), ")");
  };
  quantile("p50", count.p50_ns(), count.p50_low_ns(), count.p50_high_ns());
  quantile("p99", count.p99_ns(), count.p99_low_ns(), count.p99_high_ns());
  const auto ended = [&](uint64_t number, uint64_t error, const char* how) {
    if (number > 0) absl::StrAppend(&text, ", ", NumberText(true, number, error), " ", how);
  };
  ended(count.timeouts(), count.timeouts_error(), "timed out");
  ended(count.interrupted(), count.interrupted_error(), "interrupted by a signal");
  return text;
}

// The locks to show, in order. Their index is that of the table.
std::vector<const LockUse*> ShownLocks(const View& view, LockOrder order) {
  std::vector<const LockUse*> locks;
  for (const LockUse& lock : view.profile->message->locks()) {
    if (lock.time_ns() > 0 && (view.idle_shown || lock.idle().empty())) locks.push_back(&lock);
  }
  std::stable_sort(locks.begin(), locks.end(), [order](const LockUse* a, const LockUse* b) {
    return ComesBefore(order, *a, *b);
  });
  return locks;
}

void AppendTable(const View& view, const std::vector<const LockUse*>& locks, std::string& text) {
  const Profile& profile = *view.profile;
  const auto busy = static_cast<double>(BusyNs(profile));
  const bool many = profile.message->processes_size() > 1;
  std::vector<Table::Column> columns = {{"", Table::Align::kRight},
                                        {"waiting", Table::Align::kRight},
                                        {"share", Table::Align::kRight},
                                        {"waits", Table::Align::kRight, 2},
                                        {"p50", Table::Align::kRight, 3},
                                        {"p99", Table::Align::kRight, 3},
                                        {"timeouts", Table::Align::kRight, 7},
                                        {"samples", Table::Align::kRight, 8},
                                        {"threads", Table::Align::kRight, 6},
                                        {"kind", Table::Align::kLeft}};
  if (many) columns.push_back({"process", Table::Align::kLeft, 1});
  columns.push_back({"lock", Table::Align::kLeft});
  columns.push_back({"wanted by", Table::Align::kLeft, 4});
  columns.push_back({"released by", Table::Align::kLeft, 5});
  Table table(std::move(columns));
  for (size_t i = 0; i < std::min(locks.size(), kMostRows); i++) {
    const LockUse& lock = *locks[i];
    std::string kind = CleanName(lock.kind());
    if (!lock.idle().empty() && lock.idle() != lock.kind()) {
      kind =
          kind.empty() ? CleanName(lock.idle()) : absl::StrCat(kind, ", ", CleanName(lock.idle()));
    }
    std::vector<std::string> cells = {
        absl::StrCat(i + 1, "."),
        PlusMinus(lock.time_ns(), lock.error_ns()),
        FormatShare(static_cast<double>(lock.time_ns()), busy),
        WaitsText(lock.has_waits(), lock.waits()),
        QuantileText(lock.waits().p50_ns()),
        QuantileText(lock.waits().p99_ns()),
        NumberText(lock.waits().has_timeouts(), lock.waits().timeouts(),
                   lock.waits().timeouts_error()),
        FormatCount(lock.samples()),
        FormatCount(lock.threads()),
        std::move(kind)};
    if (many) cells.push_back(DescribeProcess(profile, lock));
    cells.push_back(CleanName(lock.name()));
    cells.push_back(TopWaiter(lock));
    cells.push_back(TopReleaser(lock));
    table.Add(std::move(cells));
  }
  text += table.Render();
  if (locks.size() > kMostRows) {
    int64_t rest = 0;
    for (size_t i = kMostRows; i < locks.size(); i++) rest += locks[i]->time_ns();
    absl::StrAppend(&text, "  and ", FormatCount(locks.size() - kMostRows), " more with ",
                    FormatDuration(rest), "\n");
  }
  if (profile.message->locks_left_out() > 0) {
    absl::StrAppend(&text, "  and ", FormatCount(profile.message->locks_left_out()),
                    " that are not in the answer, with ",
                    FormatDuration(profile.message->locks_left_out_ns()), "\n");
  }
}

void AppendPlaces(const LockUse& lock, std::string& text) {
  const auto whole = static_cast<double>(lock.time_ns());
  const auto row = [&](std::string_view label, int64_t ns, int64_t error, const std::string& who) {
    text += Line(
        absl::StrCat("     ", PadRight(label, 13)),
        absl::StrCat(FormatShare(static_cast<double>(ns), whole), error > 0 ? " ± " : "",
                     error > 0 ? FormatShare(static_cast<double>(error), whole) : "", "  ", who));
  };
  if (lock.has_waits()) {
    text += WrapAfter(absl::StrCat("     ", PadRight("waits", 13)), DescribeWaits(lock.waits()),
                      PageColumns());
  }
  std::string_view label = "wanted by";
  for (const LockPlace& place : lock.waiters()) {
    std::string who = CleanName(place.function());
    if (place.has_waits() && lock.waiters_size() > 1) {
      absl::StrAppend(&who, ", ", WaitsText(true, place.waits()), " waits");
    }
    row(std::exchange(label, ""), place.time_ns(), place.error_ns(), who);
  }
  label = "released by";
  for (const LockPlace& place : lock.releasers()) {
    row(std::exchange(label, ""), place.time_ns(), place.error_ns(), DescribeReleaser(place));
  }
  if (lock.release_left_out_ns() > 0) {
    row(std::exchange(label, ""), lock.release_left_out_ns(), 0, "others");
  }
  if (lock.release_unknown_ns() > 0) {
    row(std::exchange(label, ""), lock.release_unknown_ns(), 0, "unknown");
  }
  if (lock.shared_releasers()) {
    text += WrapAfter("     ",
                      "(its waiters' stacks wait for other locks too; each lock has its share of "
                      "those who woke them)",
                      PageColumns());
  }
  if (lock.has_owner_tid()) {
    text += Line(absl::StrCat("     ", PadRight("held now by", 13)),
                 absl::StrCat("thread ", CleanName(lock.owner()), " (", lock.owner_tid(), ")"));
  }
}

// The sum of what is shown.
std::string DescribeTotal(const View& view) {
  Estimate sum;
  for (const Sample* sample : view.shown) sum.Add(*sample);
  return absl::StrCat(
      PlusMinus(sum.value, std::llround(sum.Error())), ", ",
      FormatShare(static_cast<double>(sum.value), static_cast<double>(BusyNs(*view.profile))),
      " of the off-CPU time that is not idle");
}

void AppendNotes(const Profile& profile, std::string& text) {
  for (const std::string& note : profile.message->lock_notes()) {
    text += Wrap(CleanName(note), PageColumns(), "  ");
  }
}

void AppendFolded(const View& view, std::string& text) {
  if (view.idle.empty() || view.idle_shown) return;
  std::string list;
  for (const IdleGroup& group : view.idle) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", group.name, " ",
                    FormatDuration(group.time_ns));
  }
  text += Wrap(absl::StrCat("No contention, folded away: ", list, " (--idle shows them)."),
               PageColumns(), "  ");
}

}  // namespace

void SortLocks(LockOrder order, profd::v1::Profile* message) {
  auto& locks = *message->mutable_locks();
  std::stable_sort(
      locks.pointer_begin(), locks.pointer_end(),
      [order](const LockUse* a, const LockUse* b) { return ComesBefore(order, *a, *b); });
}

void AppendLocks(const View& view, bool colour, std::string& text) {
  const std::vector<const LockUse*> locks = ShownLocks(view, LockOrder::kTime);
  text += "\n" + Heading("Locks, the most contended first (± one standard error)", colour);
  if (locks.empty()) {
    text += "  none\n";
  } else {
    AppendTable(view, locks, text);
  }
  AppendNotes(*view.profile, text);
}

std::string RenderLocks(const View& view, LockOrder order, bool colour) {
  const Profile& profile = *view.profile;
  std::string text =
      Heading(absl::StrCat("Lock contention of ", DescribeProcesses(profile)), colour);
  text += Line("  ", DescribeWindowAndHost(profile));
  for (std::string gap : DescribeGaps(profile)) {
    gap[0] = absl::ascii_toupper(static_cast<unsigned char>(gap[0]));
    text += Wrap(gap + ".", PageColumns(), "  ");
  }
  for (const std::string& loss : DescribeLosses(*profile.message)) {
    text += Wrap("Lost " + loss, PageColumns(), "  ");
  }
  text += "\n";
  const std::vector<const LockUse*> locks = ShownLocks(view, order);
  if (locks.empty()) {
    text += "No thread was seen waiting for a lock that another one held.\n";
  } else {
    text += Heading(absl::StrCat("Locks: ", DescribeTotal(view)), colour);
    AppendTable(view, locks, text);
  }
  AppendNotes(profile, text);
  AppendFolded(view, text);
  for (size_t i = 0; i < std::min(locks.size(), kMostDetailed); i++) {
    text += "\n" + Line(absl::StrCat("  ", i + 1, ". "), CleanName(locks[i]->name()));
    AppendPlaces(*locks[i], text);
  }
  return text;
}

}  // namespace profctl
