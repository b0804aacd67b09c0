// The ledgers of a window as rows of a table: one for each thread or each name.
#ifndef PROFD_CLIENT_ANALYSIS_LEDGER_ROWS_H_
#define PROFD_CLIENT_ANALYSIS_LEDGER_ROWS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/answer/profile.h"
#include "client/answer/reason.h"
#include "client/answer/wait_durations.h"

namespace profctl {

struct LedgerRow {
  std::string name;  // of the thread, or of the group
  std::string process;
  int32_t pid = 0;       // of a single thread
  int32_t tid = 0;       // 0: a group
  uint32_t threads = 0;  // that the row stands for
  bool exited = false;   // all of them
  int64_t wall_ns = 0;
  int64_t on_cpu_ns = 0;
  int64_t idle_ns = 0;
  int64_t estimated_ns = 0;
  std::array<int64_t, profd::v1::Reason_ARRAYSIZE> off_ns{};  // by Reason
  std::array<uint64_t, profd::v1::Reason_ARRAYSIZE> waits{};
  ReasonDurations durations;
  uint64_t voluntary_switches = 0;
  uint64_t involuntary_switches = 0;
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  std::optional<int64_t> allocated_bytes;  // none: not known

  int64_t RunQueue() const { return off_ns[profd::v1::REASON_RUNQUEUE]; }
  // All waits but the run queue, idle ones included.
  int64_t Blocked() const;
  // Adds what `other` did and how many threads it stands for; names and ids stay.
  void Add(const LedgerRow& other);
  uint64_t Switches() const { return voluntary_switches + involuntary_switches; }
  uint64_t Faults() const { return minor_faults + major_faults; }
};

enum class ThreadSort { kWall, kCpu, kRunQueue, kBlocked, kSwitches, kAlloc, kName };

struct ThreadSortInfo {
  ThreadSort sort;
  std::string_view name;     // as in --sort
  std::string_view meaning;  // a few words for help
};
std::span<const ThreadSortInfo> AllThreadSorts();
// The sort of a name in AllThreadSorts.
ThreadSort ParseThreadSort(std::string_view name);

// The order of rows: the largest value first, names from A to Z.
bool ComesBefore(const LedgerRow& a, const LedgerRow& b, ThreadSort sort);

// `waits`: a profile of waits; `allocations`: of allocations by the same threads, or null. With
// `by_name` threads of processes of one
// name whose names differ only in a trailing number are one row.
std::vector<LedgerRow> LedgerRows(const Profile& waits, const Profile* allocations, bool by_name,
                                  ThreadSort sort);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_LEDGER_ROWS_H_
