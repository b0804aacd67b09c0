// The rows of `profctl top`: threads, or groups of them, selected and sorted.
#ifndef PROFD_CLIENT_TOP_ROWS_H_
#define PROFD_CLIENT_TOP_ROWS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/top/snapshot.h"

namespace profctl {

enum class Grouping { kThread, kName, kProcess, kReason, kStack };

struct GroupingInfo {
  Grouping grouping;
  std::string_view name;     // as in --by
  std::string_view meaning;  // a few words for help
};
std::span<const GroupingInfo> AllGroupings();
const GroupingInfo& DescribeGrouping(Grouping grouping);
// The grouping of a name in AllGroupings.
Grouping ParseGrouping(std::string_view name);

// None: by how long they have been doing what they do now.
using TopSort = std::optional<ThreadSort>;

struct TopSortInfo {
  TopSort sort;
  std::string_view name;     // as in --sort
  std::string_view meaning;  // a few words for help
};
// Those of `profctl threads`, and "now".
std::span<const TopSortInfo> AllTopSorts();
const TopSortInfo& DescribeTopSort(const TopSort& sort);
// The sort of a name in AllTopSorts.
TopSort ParseTopSort(std::string_view name);

struct RowsWanted {
  Grouping grouping = Grouping::kThread;
  TopSort sort = ThreadSort::kCpu;
  bool reversed = false;
  // A regular expression, searched in all that is known of a thread; text if it is none. Without
  // capitals it matches capitals too.
  std::string filter;
  bool hide_idle = false;  // threads that are idle now
};

struct TopRow {
  std::string key;    // the same in each round
  std::string label;  // printable
  LedgerRow ledger;   // the sum
  // Those that have been doing the same for longest first.
  std::vector<const TopThread*> threads;
  std::string now;    // "lock", "lock 3, on CPU 1"
  std::string where;  // the function that most of them are in

  const ThreadLook* longest() const { return threads.front()->look; }
};

struct TopRows {
  std::vector<TopRow> rows;
  size_t threads = 0;           // in them
  size_t idle_hidden = 0;       // threads
  size_t filtered = 0;          // threads that do not match
  bool filter_is_text = false;  // it is no regular expression
};

// `snapshot` must outlive the rows.
TopRows MakeRows(const Snapshot& snapshot, const RowsWanted& wanted);

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_ROWS_H_
