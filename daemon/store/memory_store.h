// The store that keeps the last hour in memory.
#ifndef PROFD_DAEMON_STORE_MEMORY_STORE_H_
#define PROFD_DAEMON_STORE_MEMORY_STORE_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/limits.h"
#include "daemon/store/delta_codec.h"
#include "daemon/store/slot_table.h"
#include "daemon/store/store.h"

namespace profd {

struct MemoryStoreOptions {
  size_t max_bytes = Limits{}.store;
  int64_t max_age_ns = 3600ll * 1'000'000'000;
  // The kernel sends a stack and a thread's name once and names them later: they outlive the last
  // delta that names them by this long.
  int64_t grace_ns = 300ll * 1'000'000'000;
};

// Keeps deltas as small blobs beside dictionaries of threads, stacks and sites (a stack with its
// reason and system call). What nothing names any more goes. The oldest is dropped first, by age,
// or by bytes, which is counted as kStoreDropped. Levels are summed over all that was ever
// appended.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(MemoryStoreOptions options = {});

  // Errors: InvalidArgument for a delta that ends before it begins or before the one before.
  absl::Status Append(ProfileDelta delta) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<MergedProfile> Merge(
      Window window, const std::function<bool(const ThreadInfo&)>& keep) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<MergedProfile> MergeLevels(
      Window window, const std::function<bool(const ThreadInfo&)>& keep) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t OldestNs() const override ABSL_LOCKS_EXCLUDED(mutex_);
  size_t Bytes() const override ABSL_LOCKS_EXCLUDED(mutex_);
  LossCounts Losses() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What a sample is beside its thread.
  struct Site {
    StackId stack{};
    uint64_t argument = 0;
    int32_t syscall = -1;
    Reason reason = Reason::kOther;
    Kind kind = Kind::kWait;
    friend bool operator==(const Site&, const Site&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Site& s) {
      return H::combine(std::move(h), s.stack, s.argument, s.syscall, s.reason, s.kind);
    }
  };
  // What there is of a level, by thread and site.
  using Levels = absl::flat_hash_map<std::pair<uint32_t, uint32_t>, SiteSample>;
  struct Blob {
    int64_t begin_ns = 0, end_ns = 0;
    std::shared_ptr<const std::string> bytes;
  };
  // All that a merge reads, taken together under the lock.
  struct View {
    std::vector<Blob> blobs;
    std::vector<std::shared_ptr<const ThreadInfo>> threads;
    std::vector<Site> sites;
    std::vector<std::shared_ptr<const StackTrace>> stacks;
    Window dropped;
    // For levels only: what there is now, and what came after the window.
    Levels levels;
    std::vector<Blob> later;
  };
  class Merger;

  absl::StatusOr<MergedProfile> MergeWindow(Window window,
                                            const std::function<bool(const ThreadInfo&)>& keep,
                                            bool levels) const ABSL_LOCKS_EXCLUDED(mutex_);
  View Take(Window window, bool levels) const ABSL_LOCKS_EXCLUDED(mutex_);
  void AddLevels(const ThreadRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps the dictionaries from forgetting what levels name.
  void UseLevels() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t InternThread(ThreadId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t InternSite(const SampleKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LearnThreads(std::vector<ThreadInfo> threads) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LearnStacks(std::vector<StackTrace> stacks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The blob of a delta whose threads and stacks are learned.
  std::string Encode(const ProfileDelta& delta) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Shrink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldestDelta() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool DropOldestStale() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t BytesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MemoryStoreOptions options_;
  mutable absl::Mutex mutex_;
  std::deque<Blob> blobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t oldest_delta_ ABSL_GUARDED_BY(mutex_) = 0;  // number of blobs_.front()
  uint64_t next_delta_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t newest_end_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t blob_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  SlotTable<ThreadId, std::shared_ptr<const ThreadInfo>> threads_ ABSL_GUARDED_BY(mutex_);
  SlotTable<StackId, std::shared_ptr<const StackTrace>> stacks_ ABSL_GUARDED_BY(mutex_);
  SlotTable<Site, Site> sites_ ABSL_GUARDED_BY(mutex_);
  Levels levels_ ABSL_GUARDED_BY(mutex_);
  uint64_t levels_used_ ABSL_GUARDED_BY(mutex_) = 0;  // number of a delta
  Window dropped_ ABSL_GUARDED_BY(mutex_);            // by bytes; drops are contiguous
  int64_t dropped_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unknown_stacks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_MEMORY_STORE_H_
