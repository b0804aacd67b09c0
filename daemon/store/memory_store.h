// The store that keeps the last hour in memory.
#ifndef PROFD_DAEMON_STORE_MEMORY_STORE_H_
#define PROFD_DAEMON_STORE_MEMORY_STORE_H_

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/limits.h"
#include "daemon/store/intake.h"
#include "daemon/store/levels.h"
#include "daemon/store/merger.h"
#include "daemon/store/store.h"
#include "daemon/store/stored_segment.h"
#include "daemon/store/sums.h"

namespace profd {

struct MemoryStoreOptions {
  size_t max_bytes = Limits{}.store;
  int64_t max_age_ns = 3600ll * 1'000'000'000;
  // The kernel sends a stack once and names it later, and sends it again if it was not named for a
  // while that is shorter than this.
  int64_t grace_ns = 300ll * 1'000'000'000;
  // The share of `max_bytes` that sums for long windows may take.
  double sum_share = 0.15;
  // Kept with each segment.
  BootIdentity boot{};
};

// Keeps immutable segments of about 10 s, or more where drains are rare. The one that is being
// filled is raw: one segment for each drain. Older ones are compressed, and rolled up as they age
// (aging.h), or sooner to keep the byte limit. What still does not fit is dropped, the oldest
// first, and counted as kStoreDropped. Beside the segments are sums of stretches of them, for long
// windows (sums.h). Levels are summed over all that was ever appended. Readers take the list of
// segments and read without a lock.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(MemoryStoreOptions options = {});

  // Who knows what a module is, or gives null: it is kept with each segment that names it. Segments
  // that are sealed before this call lack it.
  void IdentifyModulesBy(std::function<std::shared_ptr<const ModuleIdentity>(ModuleId)> identify)
      ABSL_LOCKS_EXCLUDED(writing_);

  // Errors: InvalidArgument for a delta that ends before it begins or before the one before.
  absl::Status Append(ProfileDelta delta) override ABSL_LOCKS_EXCLUDED(writing_, mutex_);
  absl::StatusOr<MergedProfile> Merge(
      Window window, const std::function<bool(const ThreadInfo&)>& keep) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<MergedProfile> MergeLevels(
      Window window, const std::function<bool(const ThreadInfo&)>& keep) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::flat_hash_set<ModuleId> NamedModules() const override ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t OldestNs() const override ABSL_LOCKS_EXCLUDED(mutex_);
  size_t Bytes() const override ABSL_LOCKS_EXCLUDED(mutex_);
  LossCounts Losses() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // All that a merge reads, taken together under the lock. Cheap to copy: pointers.
  struct Shelf {
    std::deque<SegmentPtr> sealed;         // in time order
    std::vector<SegmentPtr> open;          // after these, raw
    Sums sums;                             // of sealed ones
    std::shared_ptr<const Levels> levels;  // at the end of `sealed`
    Window dropped;                        // for want of room; drops are contiguous
    int64_t dropped_ns = 0;
    int64_t newest_ns = 0;
    uint64_t damaged_s = 0;  // found when segments were rolled up
    uint64_t unknown_stacks = 0;
    size_t bytes = 0;  // of all of the store
  };
  struct Picks;

  absl::StatusOr<MergedProfile> MergeWindow(Window window,
                                            const std::function<bool(const ThreadInfo&)>& keep,
                                            bool levels) const ABSL_LOCKS_EXCLUDED(mutex_);
  static Picks Pick(const Shelf& shelf, Window window);
  // Whether the open segment is to be sealed.
  bool IsFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // What follows changes the writer's shelf, which readers see once it is published.
  void Seal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // False when nothing is left to roll up.
  bool RollUpOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void KeepAge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void KeepBytes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  size_t BytesNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_) ABSL_LOCKS_EXCLUDED(mutex_);

  const MemoryStoreOptions options_;
  const std::shared_ptr<const BootIdentity> boot_;
  absl::Mutex writing_;  // held by the writer while it works; readers never wait for it
  std::function<std::shared_ptr<const ModuleIdentity>(ModuleId)> identify_
      ABSL_GUARDED_BY(writing_);
  Intake intake_ ABSL_GUARDED_BY(writing_);
  Shelf shelf_ ABSL_GUARDED_BY(writing_);
  size_t sealed_bytes_ ABSL_GUARDED_BY(writing_) = 0;
  size_t open_bytes_ ABSL_GUARDED_BY(writing_) = 0;
  size_t level_bytes_ ABSL_GUARDED_BY(writing_) = 0;
  int haste_ ABSL_GUARDED_BY(writing_) = 0;
  bool trim_ ABSL_GUARDED_BY(writing_) = false;  // at the end of the append
  mutable absl::Mutex mutex_;                    // held for as long as copying a pointer takes
  std::shared_ptr<const Shelf> published_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_MEMORY_STORE_H_
