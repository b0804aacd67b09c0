// Merges slices of segments into an answer.
#ifndef PROFD_DAEMON_STORE_MERGER_H_
#define PROFD_DAEMON_STORE_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/store/catalog.h"
#include "daemon/store/levels.h"
#include "daemon/store/slice_sum.h"
#include "daemon/store/stored_segment.h"

namespace profd {

// Some slices of a segment: [begin, end).
struct Pick {
  SegmentPtr segment;
  size_t begin = 0, end = 0;
};

// Reads one segment at a time, so that only sums take memory. Not thread-safe.
class Merger {
 public:
  Merger(Window requested, std::function<bool(const ThreadInfo&)> keep);

  // From the newest to the oldest. What cannot be read is counted as kStoreDamaged.
  void Add(const Pick& pick);
  // For levels, after all of the above: what there is, `changes` of raw segments that are to be
  // added to it, and changes after the window that are to be taken away.
  void AddLevels(const Levels& levels, const std::vector<Pick>& changes,
                 const std::vector<Pick>& later);
  MergedProfile Finish() &&;

 private:
  static constexpr uint32_t kUnasked = 0xfffffffe;
  struct Amount {
    int64_t weight = 0, ticks = 0;
  };
  using Place = std::pair<uint32_t, uint32_t>;  // thread, site

  void ReadPick(const Pick& pick,
                const std::function<void(const Slice&, const SliceSum::Mapping&)>& take);
  // The thread's number, or kLeftOut.
  uint32_t Kept(uint32_t thread);
  void AddChanges(const Pick& pick, int64_t sign);

  const std::function<bool(const ThreadInfo&)> keep_;
  Catalog catalog_;
  std::vector<uint32_t> kept_;  // by number of the thread
  SliceSum sum_;
  bool with_levels_ = false;
  absl::flat_hash_map<Place, Amount> levels_;
  MergedProfile profile_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_MERGER_H_
