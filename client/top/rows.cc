#include "client/top/rows.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/look_groups.h"
#include "client/text/text.h"
#include "re2/re2.h"

namespace profctl {
namespace {

constexpr std::array<GroupingInfo, 5> kGroupings = {{
    {Grouping::kThread, "thread", "each thread"},
    {Grouping::kName, "name", "threads whose names differ only in a trailing number"},
    {Grouping::kProcess, "process", "the threads of a process"},
    {Grouping::kReason, "reason", "threads that do the same now"},
    {Grouping::kStack, "stack", "threads that wait with the same stack now"},
}};

// How many of the things that the threads of a row do are listed.
constexpr size_t kMostKinds = 3;

class Filter {
 public:
  explicit Filter(const std::string& text) {
    if (text.empty()) return;
    RE2::Options options;
    options.set_log_errors(false);
    options.set_case_sensitive(std::any_of(text.begin(), text.end(), [](char c) {
      return absl::ascii_isupper(static_cast<unsigned char>(c));
    }));
    // ^ and $ are the ends of each of the texts.
    regex_ = std::make_unique<RE2>("(?m)" + text, options);
    if (regex_->ok()) return;
    is_text_ = true;
    options.set_literal(true);
    regex_ = std::make_unique<RE2>(text, options);
  }

  bool is_text() const { return is_text_; }

  bool Matches(const Snapshot& snapshot, const TopThread& thread) const {
    if (regex_ == nullptr) return true;
    const LedgerRow& ledger = thread.ledger;
    std::string known = absl::StrCat(CleanName(ledger.name), "\n", CleanName(ledger.process), "/",
                                     CleanName(ledger.name), "\n", ledger.pid, "\n", ledger.tid,
                                     "\n", DescribeNow(thread.look));
    if (thread.look != nullptr) {
      absl::StrAppend(&known, "\n", ObjectOf(*thread.look), "\n",
                      absl::StrJoin(FunctionsOf(snapshot.looks->profile(), *thread.look), "\n"));
    }
    return RE2::PartialMatch(known, *regex_);
  }

 private:
  std::unique_ptr<RE2> regex_;  // null: everything matches
  bool is_text_ = false;
};

const Profile* LookedAt(const Snapshot& snapshot) {
  return snapshot.looks ? &snapshot.looks->profile() : nullptr;
}

// The name of a thread without its trailing number, as the daemon says.
std::map<std::pair<int32_t, int32_t>, std::string> GroupNamesOf(const Snapshot& snapshot) {
  std::map<std::pair<int32_t, int32_t>, std::string> names;
  for (const Profile* profile : {&snapshot.waits(), LookedAt(snapshot)}) {
    if (profile == nullptr) continue;
    for (const Thread& thread : profile->threads) {
      if (!thread.group.empty()) names[{thread.pid, thread.tid}] = thread.group;
    }
  }
  return names;
}

class Grouper {
 public:
  Grouper(const Snapshot& snapshot, Grouping grouping) : snapshot_(snapshot), grouping_(grouping) {
    if (grouping == Grouping::kName) names_ = GroupNamesOf(snapshot);
  }

  // The key and the label of the row of a thread.
  std::pair<std::string, std::string> Of(const TopThread& thread) const {
    const LedgerRow& ledger = thread.ledger;
    const std::string process = CleanName(ledger.process);
    switch (grouping_) {
      case Grouping::kThread: {
        std::string label = absl::StrCat(Prefixed(process, CleanName(ledger.name)));
        if (ledger.tid != 0) absl::StrAppend(&label, " (", ledger.tid, ")");
        if (ledger.exited) label += ", exited";
        return {absl::StrCat(ledger.pid, "/", ledger.tid, "/", ledger.name), std::move(label)};
      }
      case Grouping::kName: {
        const auto it = names_.find({ledger.pid, ledger.tid});
        const std::string& name = it == names_.end() ? ledger.name : it->second;
        return {absl::StrCat(ledger.process, "/", name), Prefixed(process, CleanName(name))};
      }
      case Grouping::kProcess:
        return {absl::StrCat(ledger.pid), absl::StrCat(process, " (", ledger.pid, ")")};
      case Grouping::kReason: {
        const std::string now = DescribeNow(thread.look);
        return {now, thread.look == nullptr ? "(exited)" : now};
      }
      case Grouping::kStack:
        break;
    }
    return OfStack(thread);
  }

 private:
  std::string Prefixed(const std::string& process, const std::string& name) const {
    return snapshot_.many_processes && process != name ? absl::StrCat(process, "/", name) : name;
  }

  std::pair<std::string, std::string> OfStack(const TopThread& thread) const {
    const std::string now = DescribeNow(thread.look);
    if (thread.look == nullptr) return {now, "(exited)"};
    const Profile& profile = snapshot_.looks->profile();
    const std::vector<std::string> functions = FunctionsOf(profile, *thread.look);
    const std::string process = CleanName(thread.ledger.process);
    if (functions.empty()) return {absl::StrCat(process, "\n", now), Prefixed(process, now)};
    std::string origin = OriginOf(profile, *thread.look);
    if (origin.empty()) origin = functions.front();
    return {absl::StrCat(process, "\n", now, "\n", absl::StrJoin(functions, "\n")),
            Prefixed(process, origin)};
  }

  const Snapshot& snapshot_;
  const Grouping grouping_;
  std::map<std::pair<int32_t, int32_t>, std::string> names_;
};

bool LongerNow(const TopThread* a, const TopThread* b) {
  const auto length = [](const TopThread* thread) {
    return thread->look == nullptr ? -2 : thread->look->for_ns.value_or(-1);
  };
  return length(a) > length(b);
}

// The most frequent first; those that are as frequent from A to Z.
std::vector<std::pair<std::string, size_t>> MostFrequent(
    const std::map<std::string, size_t>& counts) {
  std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

void DescribeWhatTheyDo(const Snapshot& snapshot, TopRow* row) {
  std::map<std::string, size_t> kinds, origins;
  for (const TopThread* thread : row->threads) {
    if (thread->look == nullptr) continue;
    // The kind of an idle wait is among the details.
    ++kinds[thread->look->idle.empty() ? DescribeNow(thread->look) : "idle"];
    const std::string origin = OriginOf(snapshot.looks->profile(), *thread->look);
    if (!origin.empty()) ++origins[origin];
  }
  const auto by_kind = MostFrequent(kinds);
  if (by_kind.size() < 2) row->now = by_kind.empty() ? DescribeNow(nullptr) : by_kind[0].first;
  for (size_t i = 0; by_kind.size() > 1 && i < std::min(by_kind.size(), kMostKinds); ++i) {
    absl::StrAppend(&row->now, i == 0 ? "" : ", ", FormatCount(by_kind[i].second), " ",
                    by_kind[i].first);
  }
  if (by_kind.size() > kMostKinds) row->now += " ...";
  if (!origins.empty()) row->where = MostFrequent(origins).front().first;
}

void Sort(const RowsWanted& wanted, std::vector<TopRow>* rows) {
  const auto before = [&](const TopRow& a, const TopRow& b) {
    if (wanted.sort) return ComesBefore(a.ledger, b.ledger, *wanted.sort);
    return LongerNow(a.threads.front(), b.threads.front());
  };
  std::stable_sort(rows->begin(), rows->end(), [&](const TopRow& a, const TopRow& b) {
    return wanted.reversed ? before(b, a) : before(a, b);
  });
}

std::vector<TopSortInfo> MakeSorts() {
  std::vector<TopSortInfo> sorts;
  for (const ThreadSortInfo& info : AllThreadSorts()) {
    sorts.push_back({info.sort, info.name, info.meaning});
  }
  sorts.push_back({std::nullopt, "now", "how long they have been doing what they do now"});
  return sorts;
}

}  // namespace

std::span<const GroupingInfo> AllGroupings() { return kGroupings; }

const GroupingInfo& DescribeGrouping(Grouping grouping) {
  return *std::find_if(kGroupings.begin(), kGroupings.end(),
                       [&](const GroupingInfo& info) { return info.grouping == grouping; });
}

Grouping ParseGrouping(std::string_view name) {
  const auto it = std::find_if(kGroupings.begin(), kGroupings.end(),
                               [&](const GroupingInfo& info) { return info.name == name; });
  return it == kGroupings.end() ? Grouping::kThread : it->grouping;
}

std::span<const TopSortInfo> AllTopSorts() {
  static const std::vector<TopSortInfo> sorts = MakeSorts();
  return sorts;
}

const TopSortInfo& DescribeTopSort(const TopSort& sort) {
  const std::span<const TopSortInfo> sorts = AllTopSorts();
  return *std::find_if(sorts.begin(), sorts.end(),
                       [&](const TopSortInfo& info) { return info.sort == sort; });
}

TopSort ParseTopSort(std::string_view name) {
  const std::span<const TopSortInfo> sorts = AllTopSorts();
  const auto it = std::find_if(sorts.begin(), sorts.end(),
                               [&](const TopSortInfo& info) { return info.name == name; });
  return it == sorts.end() ? TopSort(ThreadSort::kCpu) : it->sort;
}

TopRows MakeRows(const Snapshot& snapshot, const RowsWanted& wanted) {
  const Filter filter(wanted.filter);
  const Grouper grouper(snapshot, wanted.grouping);
  TopRows result;
  result.filter_is_text = filter.is_text();
  std::map<std::string, size_t> places;
  for (const TopThread& thread : snapshot.threads) {
    if (!filter.Matches(snapshot, thread)) {
      ++result.filtered;
      continue;
    }
    if (wanted.hide_idle && thread.look != nullptr && !thread.look->idle.empty()) {
      ++result.idle_hidden;
      continue;
    }
    auto [key, label] = grouper.Of(thread);
    const auto [it, fresh] = places.try_emplace(key, result.rows.size());
    if (fresh) {
      TopRow& row = result.rows.emplace_back();
      row.key = std::move(key);
      row.ledger.name = label;
      row.label = std::move(label);
    }
    TopRow& row = result.rows[it->second];
    row.ledger.Add(thread.ledger);
    row.threads.push_back(&thread);
    ++result.threads;
  }
  for (TopRow& row : result.rows) {
    std::stable_sort(row.threads.begin(), row.threads.end(), LongerNow);
    DescribeWhatTheyDo(snapshot, &row);
  }
  Sort(wanted, &result.rows);
  return result;
}

}  // namespace profctl
