// Turns the cumulative heap totals of threads, as read at drains, into differences.
#ifndef PROFD_DAEMON_SOURCE_HEAP_ACCOUNTS_H_
#define PROFD_DAEMON_SOURCE_HEAP_ACCOUNTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

// Bytes through one allocator since its first event.
struct AllocatorTotals {
  HeapDelta allocated, freed;
};

// Not thread-safe.
class HeapAccounts {
 public:
  // Applies a record of a thread: its state at a drain, or its last one. Without `count`, skips the
  // changes since the previous record.
  void Apply(const profd_heap_record& record, bool count = true);

  // Ends a drain: moves the changes since the last one into the ledgers of `delta`.
  void Finish(ProfileDelta& delta);

  // Forgets unknown threads, whose last record was lost.
  void KeepOnly(absl::FunctionRef<bool(ThreadId)> is_known);
  // Forgets the totals of unknown modules.
  void KeepOnlyModules(absl::FunctionRef<bool(WatchId)> is_known);

  // Since the last call: allocated less freed bytes of threads when first seen, and threads that
  // exited.
  struct Unseen {
    std::vector<std::pair<ThreadId, int64_t>> before;
    std::vector<ThreadId>
        quiet;  // exited before they were looked at: less than one event of each is missing
    std::vector<ThreadId> lost;  // exited with unknown totals
  };
  Unseen TakeUnseen() { return std::exchange(unseen_, {}); }
  // Running threads whose totals when first seen are not known yet.
  const absl::flat_hash_set<ThreadId>& unread() const { return unread_; }

  // By the allocator's module.
  const std::map<WatchId, AllocatorTotals>& allocators() const { return allocators_; }
  size_t threads() const { return threads_.size(); }
  // Over all threads that ever had an event.
  int64_t events() const { return events_; }
  int64_t bytes() const { return bytes_; }
  int64_t seen_bytes() const { return seen_bytes_; }

 private:
  struct Thread {
    std::array<profd_heap_counter, PROFD_HEAP_COUNTERS> last{};
    LedgerDelta pending;  // since the last drain; heap fields only
    bool changed = false;
    bool exited = false;
  };

  absl::node_hash_map<ThreadId, Thread> threads_;  // large values: no room kept for more
  Unseen unseen_;
  absl::flat_hash_set<ThreadId> unread_;
  std::map<WatchId, AllocatorTotals> allocators_;
  int64_t events_ = 0;
  int64_t bytes_ = 0;
  int64_t seen_bytes_ = 0;  // that the seen events stand for
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_HEAP_ACCOUNTS_H_
