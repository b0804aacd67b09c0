// Merges slices of segments into an answer.
#ifndef PROFD_DAEMON_STORE_MERGER_H_
#define PROFD_DAEMON_STORE_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "daemon/store/catalog.h"
#include "daemon/store/folding.h"
#include "daemon/store/levels.h"
#include "daemon/store/slice_sum.h"
#include "daemon/store/store.h"
#include "daemon/store/stored_segment.h"
#include "daemon/store/sums.h"

namespace profd {

// Reads one segment at a time, and of it a row at a time, so that only sums take memory. Beyond two
// thousand, threads and processes that are gone at the end of the window are added up (folding.h):
// however long the window is, the answer is not longer than for what still runs. The last ones keep
// their own rows. Not thread-safe.
class Merger {
 public:
  // `levels`: AddLevels() is called, too. Without, threads that have nothing else have no row.
  Merger(Window requested, std::function<bool(const ThreadInfo&)> keep, bool levels = false);

  // A thread that is alive has a row in every drain. These are some 10 s apart at
  // most, and one may miss it.
  static constexpr int64_t kRecentNs = 25'000'000'000;

  // From the newest to the oldest. What cannot be read is counted as kStoreDamaged.
  void Add(const Pick& pick) { AddSlices(pick, nullptr); }
  // The same, of a part that may be a sum. A sum does not reach into the last kRecentNs.
  void AddPart(const Sums::Part& part);
  // For levels, after all of the above: what there is, `changes` of raw segments that are to be
  // added to it, and changes after the window that are to be taken away.
  void AddLevels(const Levels& levels, const std::vector<Pick>& changes,
                 const std::vector<Pick>& later);
  MergedProfile Finish() &&;

 private:
  static constexpr uint32_t kUnasked = 0xfffffffe;
  using Place = std::pair<uint32_t, uint32_t>;  // thread, site

  using Take = absl::FunctionRef<void(std::span<SliceCursor>, const Segment& dictionaries,
                                      SliceSum::Mapping*)>;

  // `sum_of`: what the pick is the sum of, which is not counted as damaged; else null. False if
  // some of it cannot be read.
  bool AddSlices(const Pick& pick, const std::vector<Pick>* sum_of);
  // Gives the slices to `take`, and spans that cannot be read to `lose`. False if there are any.
  bool ReadPick(const Pick& pick, Take take, absl::FunctionRef<void(Window)> lose);
  void CountDamaged(Window span);
  bool IsRecent(const Pick& pick);
  void FindAlive(const Segment& dictionaries, const Catalog::Numbers& numbers);
  // The number of the thread to whose row a thread is added, mostly itself, or kLeftOut. `present`:
  // it has not ended unless that is known.
  uint32_t RowOf(uint32_t thread, bool present);
  uint32_t ChooseRow(uint32_t thread, bool present);
  void ChooseRowsOfLevels();
  // Of threads that have only levels in a segment: growth, until their rows are known.
  void AddGrowth(const RowView& row, std::span<const uint32_t> numbers,
                 const SliceSum::Mapping& mapping);
  // For threads that exited and have no row, that of several.
  uint32_t RowOfGrowth(uint32_t thread);
  void AddGrowths();
  void KeepLongestWaits();
  // After the threads. `name_stack` is called for each stack of a wait.
  void FinishWaits(absl::FunctionRef<void(StackId)> name_stack);
  // Of a thread whose samples are sorted.
  std::vector<MergedSamples::Extra> TakeExtras(SliceSum::Thread* thread);
  void AddChanges(const Pick& pick, int64_t sign);
  void AddChanges(SliceCursor* slice, const SliceSum::Mapping& mapping, int64_t sign);

  const std::function<bool(const ThreadInfo&)> keep_;
  const bool with_levels_;
  Catalog catalog_;
  std::vector<uint32_t> rows_;      // by number of the thread
  std::vector<uint8_t> uncounted_;  // the same, see SliceSum::Mapping
  size_t exited_rows_ = 0;          // of threads that exited
  ExitedNames names_;
  absl::flat_hash_set<ProcessKey> alive_;  // at the end of the window
  std::optional<int64_t> newest_ns_;       // end of the window
  bool reading_recent_ = true;
  bool all_listed_ = true;  // every thread that was alive then has a row there
  SliceSum sum_;
  absl::flat_hash_map<Place, Amount> levels_;
  absl::btree_map<Place, Amount> growths_;  // of threads that have only levels in a segment
  MergedProfile profile_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_MERGER_H_
