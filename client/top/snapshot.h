// What one round of `profctl top` knows: the ledgers of the last interval, and what threads do now.
#ifndef PROFD_CLIENT_TOP_SNAPSHOT_H_
#define PROFD_CLIENT_TOP_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/analysis/ledger_rows.h"
#include "client/analysis/looks.h"
#include "client/answer/profile.h"

namespace profctl {

struct TopThread {
  LedgerRow ledger;                  // all zero for a thread that is not in the interval
  const ThreadLook* look = nullptr;  // in Snapshot::looks; null: exited, or not looked at
};

struct Snapshot {
  Snapshot() = default;
  // Threads point to looks, which stay where they are.
  Snapshot(Snapshot&&) = default;
  Snapshot& operator=(Snapshot&&) = default;

  Answer interval;             // waits, then allocations
  std::optional<Looks> looks;  // none: profd cannot look, see looks_error
  std::string looks_error;
  std::vector<TopThread> threads;
  bool many_processes = false;

  const Profile& waits() const { return interval.profiles.front(); }
  double seconds() const { return static_cast<double>(WindowNs(waits())) / 1e9; }
};

// `interval`: the sample types "offcpu" and "alloc".
Snapshot MakeSnapshot(Answer interval, absl::StatusOr<Looks> looks);

// "on CPU", "run queue", "idle: sleeping", "lock"; "-" without a look.
std::string DescribeNow(const ThreadLook* look);

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_SNAPSHOT_H_
