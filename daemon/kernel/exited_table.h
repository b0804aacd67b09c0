// The tables of threads that ended without being known one by one.
#ifndef PROFD_DAEMON_KERNEL_EXITED_TABLE_H_
#define PROFD_DAEMON_KERNEL_EXITED_TABLE_H_

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"

namespace profd {

// Entries of a table only grow, so that a program may add to one at any time while it is read. To
// get rid of old ones the daemon has programs add to the other table, and empties this one a while
// later, when none of them can be in the middle of adding to it. Not thread-safe.
class ExitedTable {
 public:
  // No program that runs without being interrupted takes so long.
  static constexpr int64_t kGraceNs = 1'000'000'000;
  // How long entries are kept at least, unless a table is nearly full.
  static constexpr int64_t kKeptNs = 60'000'000'000;

  // Map descriptors, which must outlive this, and the globals of the programs.
  struct Maps {
    int even = -1, odd = -1, rest = -1;
    uint32_t entries = 0;  // of each of the first two
    uint32_t* epoch = nullptr;
    uint32_t* rest_used = nullptr;
  };
  ExitedTable() = default;
  explicit ExitedTable(const Maps& maps) : maps_(maps) {}

  // Growth since the last call.
  absl::StatusOr<std::vector<ExitedEntry>> Drain(int64_t now_ns);

 private:
  struct KeyLess {
    bool operator()(const profd_exited_key& a, const profd_exited_key& b) const;
  };
  using Seen = std::map<profd_exited_key, profd_exited, KeyLess>;

  absl::Status DrainEpoch(uint32_t epoch, bool empty, std::vector<ExitedEntry>& grown);
  absl::Status DrainRest(std::vector<ExitedEntry>& grown);

  Maps maps_;
  std::array<Seen, 2> seen_;  // by epoch, as of the last call
  std::map<uint32_t, profd_exited> rest_seen_;
  bool old_left_ = false;   // the idle table has entries
  int64_t changed_ns_ = 0;  // when the epoch was
};

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_EXITED_TABLE_H_
