// Turns the cumulative accounts of threads, read at drains, into what happened in between.
#ifndef PROFD_DAEMON_SOURCE_ACCOUNTS_H_
#define PROFD_DAEMON_SOURCE_ACCOUNTS_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "bpf/abi.h"
#include "daemon/kernel/kernel.h"
#include "daemon/profile/profile.h"
#include "daemon/source/exited_threads.h"
#include "daemon/source/pending_steps.h"
#include "daemon/source/wait_durations.h"

namespace profd {

// Not thread-safe.
class Accounts {
 public:
  // Without `books` the kernel's own totals are left out.
  explicit Accounts(bool books = true) : books_(books), exited_(books) {}

  // Begins a reading of the threads, of which there may be several before the drain ends.
  void BeginReading();
  // Takes up a record of a thread: live at a drain, or its last ones.
  void Apply(const profd_thread_record& record);
  // Ends a reading that left threads out: they wait as their last records said. False when they are
  // not as many as these records say: then it is not known who waits, and all threads are to be
  // read. Whoever is missing where `all` were read is gone.
  bool EndReading(const LeftOut& left_out, bool all);

  // What threads did till now is not told: the first slice begins here.
  void ForgetPast();

  // Takes up threads that ended and leave no record.
  void ApplyExited(std::span<const ExitedEntry> entries) { exited_.Add(entries); }

  // Ends a drain: moves what was learned since the last one into `delta`. Threads that gave no last
  // account and were not seen at two drains, half a second apart at least, are counted as vanished.
  // Threads that ended are known until the next reading.
  void Finish(ProfileDelta& delta);

  size_t live_threads() const { return live_; }
  // Live, or not yet forgotten.
  bool Knows(ThreadId id) const { return threads_.contains(id); }
  size_t known_threads() const { return threads_.size(); }
  uint64_t vanished() const { return vanished_; }
  // Of the threads that a drain has at rest: how many were read all the same.
  int64_t rests_read() const { return rests_read_; }
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
  // Live threads by target and process, as of the last drain, or of the first reading.
  const std::vector<TargetThreads>& ByTarget() const { return by_target_; }

 private:
  // What the ledger and the books say of a LedgerDelta, and no more: there may be tens of thousands
  // of threads, and each waits for few reasons.
  struct ReasonTotal {
    int64_t off_ns = 0;
    int64_t waits = 0;
    size_t reason = 0;
  };
  struct LedgerNumbers {
    int64_t wall_ns = 0;
    int64_t on_cpu_ns = 0;
    absl::InlinedVector<ReasonTotal, 2> reasons;
  };
  struct BookNumbers {
    int64_t wall_ns = 0;
    int64_t on_cpu_ns = 0;
    int64_t runqueue_ns = 0;
    int64_t unattributed_ns = 0;
    int64_t voluntary_switches = 0;
    int64_t involuntary_switches = 0;
    int64_t minor_faults = 0;
    int64_t major_faults = 0;
    int64_t read_bytes = 0;
    int64_t write_bytes = 0;
  };

  struct Thread {
    // What a drain looks at of a thread at rest comes first.
    bool seen = false;       // in this drain
    bool at_rest = false;    // as of the last record
    bool by_ledger = false;  // what it waits for is known
    bool announced = false;  // there was a record before
    bool exiting = false;
    bool dead = false;
    Reason reason = Reason::kOther;  // of the wait
    uint32_t reading = 0;            // of the last record
    int unseen = 0;                  // drains in a row
    // By our clock and the scheduler's: until when its time is told.
    int64_t now = 0, clock = 0;
    // And how much of it since the last record.
    int64_t rested = 0, rested_clock = 0;
    ThreadInfo info;
    LedgerNumbers exact;  // of the last record
    BookNumbers books;    // of it, or as the account was opened
    PendingSteps::Place pending;
    WaitDurations durations;
    uint64_t armed_at = 0;  // as of the last record; 0: the ledger stood still
    int64_t missing = 0;    // switches that the books have and the ledger has not
    int64_t missed = 0;     // of these, counted as unseen
    // What the last step told by the ledger and the books will only tell later, ns.
    int64_t ahead_on_cpu = 0;
    int64_t ahead_queued = 0;

    bool vanished() const;
  };

  using Counts = std::map<std::pair<uint32_t, int32_t>, uint32_t>;  // by target and PID

  void Identify(Thread& thread, const profd_thread_record& record);
  // Tells the other threads of a process of its new name, which drains may leave out.
  void RenameProcess(const ThreadInfo& leader);
  void SetCounts(const Counts& counts);
  // Rows for threads that ended without a record, and what they did for their targets.
  void FinishExited(ProfileDelta& delta, const Counts& counts,
                    std::map<uint32_t, TargetActivity>& activity);
  static LedgerNumbers NarrowLedger(const LedgerDelta& exact);
  static BookNumbers NarrowBooks(const LedgerDelta& books);
  static LedgerDelta Grown(const LedgerDelta& books, const BookNumbers& before);
  // The step since the last record, by the ledger or by the books.
  LedgerDelta Step(Thread& thread, const profd_thread_record& record, const LedgerDelta& exact,
                   const LedgerDelta& books);
  void CountUnseen(Thread& thread, const LedgerDelta& step);
  // It goes as the next reading begins.
  bool HasEnded(const Thread& thread) const;
  void SetAtRest(Thread& thread, bool at_rest);
  // Has the thread rest until the end of the reading that left it out, and says for how long.
  RestingThread Rest(ThreadId id, Thread& thread) const;
  // Adds to the totals of the last record what the thread rested since.
  void SettleRest(Thread& thread) const;

  const bool books_;
  absl::node_hash_map<ThreadId, Thread> threads_;  // large values: no room kept for more
  ExitedThreads exited_;
  PendingSteps pending_;  // since the last drain
  std::vector<ThreadInfo> news_;
  std::vector<Sample> durations_;  // of waits, since the last drain
  std::vector<ThreadId> ended_;
  std::vector<TargetActivity> activity_;
  std::vector<TargetThreads> by_target_;
  size_t live_ = 0;
  uint32_t reading_ = 1;
  bool rests_known_ = false;  // who was left out of the last reading
  bool crowded_ = false;      // too many vanished to keep them for long
  LeftOut left_out_;
  int64_t counted_ns_ = 0;  // time of the last drain at which unseen threads were counted
  // Threads that their last records say are at rest, and how many of these records are of this
  // reading.
  uint64_t resting_ = 0;
  uint64_t resting_read_ = 0;
  uint64_t vanished_ = 0;
  int64_t rests_read_ = 0;
  uint64_t switches_unseen_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_ACCOUNTS_H_
