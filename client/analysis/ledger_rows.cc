#include "client/analysis/ledger_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace profctl {
namespace {

constexpr std::array<ThreadSortInfo, 7> kSorts = {{
    {ThreadSort::kCpu, "cpu", "time on a CPU"},
    {ThreadSort::kRunQueue, "runq", "time on the run queue"},
    {ThreadSort::kBlocked, "blocked", "waits that are not idle"},
    {ThreadSort::kWall, "wall", "time for which the thread was watched"},
    {ThreadSort::kSwitches, "switches", "context switches"},
    {ThreadSort::kAlloc, "alloc", "bytes allocated"},
    {ThreadSort::kName, "name", "process and thread name"},
}};

LedgerRow RowOf(const Thread& thread, const std::optional<profd::v1::HeapTotal>& heap) {
  const profd::v1::Thread& ledger = thread.ledger;
  LedgerRow row;
  row.threads = 1;
  row.exited = ledger.exited();
  row.wall_ns = ledger.wall_ns();
  row.on_cpu_ns = ledger.on_cpu_ns();
  row.idle_ns = ledger.idle_ns();
  row.estimated_ns = ledger.estimated_ns();
  for (const profd::v1::ReasonTotal& off : ledger.off()) {
    const Reason reason = DescribeReason(off.reason()).reason;
    row.off_ns[reason] += off.time_ns();
    row.waits[reason] += off.waits();
  }
  AddDurations(ledger.off(), &row.durations);
  row.voluntary_switches = ledger.voluntary_switches();
  row.involuntary_switches = ledger.involuntary_switches();
  row.minor_faults = ledger.minor_faults();
  row.major_faults = ledger.major_faults();
  row.read_bytes = ledger.read_bytes();
  row.write_bytes = ledger.write_bytes();
  if (heap) row.allocated_bytes = heap->bytes();
  return row;
}

// What rows are sorted by, descending.
double ValueOf(const LedgerRow& row, ThreadSort sort) {
  switch (sort) {
    case ThreadSort::kWall:
      return static_cast<double>(row.wall_ns);
    case ThreadSort::kCpu:
      return static_cast<double>(row.on_cpu_ns);
    case ThreadSort::kRunQueue:
      return static_cast<double>(row.RunQueue());
    case ThreadSort::kBlocked:
      return static_cast<double>(row.Blocked() - row.idle_ns);
    case ThreadSort::kSwitches:
      return static_cast<double>(row.Switches());
    case ThreadSort::kAlloc:
      return static_cast<double>(row.allocated_bytes.value_or(-1));
    case ThreadSort::kName:
      break;
  }
  return 0;
}

}  // namespace

int64_t LedgerRow::Blocked() const {
  return std::accumulate(off_ns.begin(), off_ns.end(), int64_t{0}) - RunQueue();
}

void LedgerRow::Add(const LedgerRow& other) {
  exited = other.exited && (exited || threads == 0);
  threads += other.threads;
  wall_ns += other.wall_ns;
  on_cpu_ns += other.on_cpu_ns;
  idle_ns += other.idle_ns;
  estimated_ns += other.estimated_ns;
  for (size_t reason = 0; reason < off_ns.size(); ++reason) {
    off_ns[reason] += other.off_ns[reason];
    waits[reason] += other.waits[reason];
  }
  for (const auto& [reason, waited] : other.durations) durations[reason].Add(waited);
  voluntary_switches += other.voluntary_switches;
  involuntary_switches += other.involuntary_switches;
  minor_faults += other.minor_faults;
  major_faults += other.major_faults;
  read_bytes += other.read_bytes;
  write_bytes += other.write_bytes;
  if (other.allocated_bytes) {
    allocated_bytes = allocated_bytes.value_or(0) + *other.allocated_bytes;
  }
}

std::span<const ThreadSortInfo> AllThreadSorts() { return kSorts; }

ThreadSort ParseThreadSort(std::string_view name) {
  const auto it = std::find_if(kSorts.begin(), kSorts.end(),
                               [&](const ThreadSortInfo& info) { return info.name == name; });
  return it == kSorts.end() ? ThreadSort::kCpu : it->sort;
}

bool ComesBefore(const LedgerRow& a, const LedgerRow& b, ThreadSort sort) {
  const double a_value = ValueOf(a, sort), b_value = ValueOf(b, sort);
  if (a_value != b_value) return a_value > b_value;
  return std::tie(a.process, a.name, a.tid) < std::tie(b.process, b.name, b.tid);
}

std::vector<LedgerRow> LedgerRows(const Profile& waits, const Profile* allocations, bool by_name,
                                  ThreadSort sort) {
  std::vector<LedgerRow> rows;
  std::map<std::pair<std::string, std::string>, size_t> groups;  // of rows
  for (size_t i = 0; i < waits.threads.size(); ++i) {
    const Thread& thread = waits.threads[i];
    LedgerRow* row = nullptr;
    if (by_name) {
      const auto [it, fresh] = groups.try_emplace({thread.process, thread.group}, rows.size());
      row = fresh ? &rows.emplace_back() : &rows[it->second];
      row->name = thread.group;
    } else {
      row = &rows.emplace_back();
      row->name = thread.name;
      row->pid = thread.pid;
      row->tid = thread.tid;
    }
    row->process = thread.process;
    const bool known = allocations != nullptr && i < allocations->threads.size();
    row->Add(RowOf(thread, known ? allocations->threads[i].heap : std::nullopt));
  }
  std::stable_sort(rows.begin(), rows.end(), [sort](const LedgerRow& a, const LedgerRow& b) {
    return ComesBefore(a, b, sort);
  });
  return rows;
}

}  // namespace profctl
