// Turns the cumulative heap totals of threads, read at drains, into what happened in between.
#ifndef PROFD_DAEMON_SOURCE_HEAP_ACCOUNTS_H_
#define PROFD_DAEMON_SOURCE_HEAP_ACCOUNTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

// What went through one allocator since its first event.
struct AllocatorTotals {
  HeapDelta allocated, freed;
};

// Not thread-safe.
class HeapAccounts {
 public:
  // Takes up a record of a thread: live at a drain, or its last one. Without `count` what happened
  // since the one before is left out.
  void Apply(const profd_heap_record& record, bool count = true);

  // Ends a drain: moves what was learned since the last one into the ledgers of `delta`.
  void Finish(ProfileDelta& delta);

  // Forgets threads that nobody knows any more, whose last record was lost.
  void KeepOnly(absl::FunctionRef<bool(ThreadId)> is_known);

  // Since the last call: what threads had allocated less freed when they were seen for the first
  // time, and threads that ended.
  struct Unseen {
    std::vector<std::pair<ThreadId, int64_t>> before;
    std::vector<ThreadId>
        quiet;  // too young to have been looked at: less than an event of each is missing
    std::vector<ThreadId> lost;  // of which it was never known what they had
  };
  Unseen TakeUnseen() { return std::exchange(unseen_, {}); }
  // Of these threads, which live, it is not known yet what they had when they were seen first.
  const absl::flat_hash_set<ThreadId>& unread() const { return unread_; }

  // By the module that holds the allocator.
  const std::map<ModuleId, AllocatorTotals>& allocators() const { return allocators_; }
  size_t threads() const { return threads_.size(); }
  // Of all threads that ever had an event.
  int64_t events() const { return events_; }
  int64_t bytes() const { return bytes_; }
  int64_t seen_bytes() const { return seen_bytes_; }

 private:
  struct Thread {
    std::array<profd_heap_counter, PROFD_HEAP_COUNTERS> last{};
    LedgerDelta pending;  // since the last drain; of the heap only
    bool changed = false;
    bool exited = false;
  };

  absl::flat_hash_map<ThreadId, Thread> threads_;
  Unseen unseen_;
  absl::flat_hash_set<ThreadId> unread_;
  std::map<ModuleId, AllocatorTotals> allocators_;
  int64_t events_ = 0;
  int64_t bytes_ = 0;
  int64_t seen_bytes_ = 0;  // that events which were seen stand for
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_HEAP_ACCOUNTS_H_
