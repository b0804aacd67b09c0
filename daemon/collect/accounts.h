// Turns the cumulative accounts of threads, read at drains, into what happened in between.
#ifndef PROFD_DAEMON_COLLECT_ACCOUNTS_H_
#define PROFD_DAEMON_COLLECT_ACCOUNTS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

struct AccountLayers {
  bool books = true;
  bool per_switch = true;
};

// Not thread-safe.
class Accounts {
 public:
  explicit Accounts(AccountLayers layers) : layers_(layers) {}

  // Takes up a record of a thread: live at a drain, or its last ones.
  void Apply(const profd_thread_record& record);

  // Ends a drain: moves what was learned since the last one into `delta`. Threads that were not
  // seen for two drains and gave no last account are counted as vanished.
  void Finish(ProfileDelta& delta);

  size_t live_threads() const;
  uint64_t vanished() const { return vanished_; }

  struct TargetThreads {
    uint32_t target = 0;
    int32_t pid = 0;
    uint32_t threads = 0;
  };
  // Live threads by target and process.
  std::vector<TargetThreads> ByTarget() const;

 private:
  struct Thread {
    LedgerDelta last;     // totals at the last drain
    LedgerDelta current;  // totals as of the last record
    ThreadInfo info;
    profd_books base{};  // the kernel's books when the account was opened
    bool announced = false;
    bool seen = false;  // in this drain
    bool exiting = false;
    bool dead = false;
    int unseen = 0;  // drains in a row

    bool vanished() const;
  };

  void Identify(Thread& thread, const profd_thread_record& record);

  const AccountLayers layers_;
  absl::flat_hash_map<ThreadId, Thread> threads_;
  std::vector<ThreadInfo> news_;
  uint64_t vanished_ = 0;
};

// Totals of a thread at record.now: closed phases, the wait that is not settled yet, and the open
// phase, so that on_cpu + sum(off) = wall. `base` are the books when the account was opened.
LedgerDelta TotalsOf(const profd_thread_record& record, const profd_books& base,
                     const AccountLayers& layers);

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_ACCOUNTS_H_
