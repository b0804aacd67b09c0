// Turns the cumulative accounts of threads, read at drains, into what happened in between.
#ifndef PROFD_DAEMON_COLLECT_ACCOUNTS_H_
#define PROFD_DAEMON_COLLECT_ACCOUNTS_H_

#include <cstdint>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

// Not thread-safe.
class Accounts {
 public:
  // Without `books` the kernel's own totals are left out.
  explicit Accounts(bool books = true) : books_(books) {}

  // Takes up a record of a thread: live at a drain, or its last ones.
  void Apply(const profd_thread_record& record);

  // Ends a drain: moves what was learned since the last one into `delta`. Threads that were not
  // seen for two drains and gave no last account are counted as vanished.
  void Finish(ProfileDelta& delta);

  size_t live_threads() const;
  uint64_t vanished() const { return vanished_; }
  // Switches that the kernel counted and did not report to the per-switch layer.
  uint64_t switches_unseen() const { return switches_unseen_; }
  // The target of a thread; 0 when it is not known.
  uint32_t TargetOf(ThreadId id) const;
  // The PID of its process; 0 when it is not known.
  int32_t ProcessOf(ThreadId id) const;

  // What each target did between the last two drains; without ticks.
  const std::vector<TargetActivity>& activity() const { return activity_; }

  struct TargetThreads {
    uint32_t target = 0;
    int32_t pid = 0;
    uint32_t threads = 0;
  };
  // Live threads by target and process.
  std::vector<TargetThreads> ByTarget() const;

 private:
  struct Thread {
    LedgerDelta exact;    // totals of the last record, by the ledger and by the books
    LedgerDelta books;
    LedgerDelta pending;  // since the last drain
    uint64_t armed_at = 0;  // as of the last record; 0: the ledger stood still
    int64_t missing = 0;    // switches that the books have and the ledger has not
    int64_t missed = 0;     // of these, counted as unseen
    // What the last step told by the ledger and the books will only tell later, ns.
    int64_t ahead_on_cpu = 0;
    int64_t ahead_queued = 0;
    ThreadInfo info;
    profd_books base{};  // the kernel's books when the account was opened
    bool announced = false;  // there was a record before
    bool seen = false;  // in this drain
    bool exiting = false;
    bool dead = false;
    int unseen = 0;  // drains in a row

    bool vanished() const;
  };

  void Identify(Thread& thread, const profd_thread_record& record);
  // The step since the last record, by the ledger or by the books.
  LedgerDelta Step(Thread& thread, const profd_thread_record& record,
                   const LedgerDelta& exact, const LedgerDelta& books);
  void CountUnseen(Thread& thread, const LedgerDelta& step);

  const bool books_;
  absl::node_hash_map<ThreadId, Thread> threads_;  // large values: no room kept for more
  std::vector<ThreadInfo> news_;
  std::vector<TargetActivity> activity_;
  uint64_t vanished_ = 0;
  uint64_t switches_unseen_ = 0;
};

// Totals of a thread from record.begin to record.now by the ledger of the per-switch layer: closed
// cycles and the open one, so that on_cpu + sum(off) = wall. Where the ledger stood still meanwhile
// only differences of records since record.armed_at mean anything.
LedgerDelta ExactTotals(const profd_thread_record& record);

// The same by the kernel's books alone: blocked time is of unknown reason. `base` are the books
// when the account was opened.
LedgerDelta BookTotals(const profd_thread_record& record, const profd_books& base);

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_ACCOUNTS_H_
