#include "client/ledger_rows.h"

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
    {ThreadSort::kWall, "wall", "time that the thread existed"},
    {ThreadSort::kSwitches, "switches", "context switches"},
    {ThreadSort::kAlloc, "alloc", "bytes allocated"},
    {ThreadSort::kName, "name", "process and thread name"},
}};

void Add(const Thread& thread, const std::optional<profd::v1::HeapTotal>& heap, LedgerRow* row) {
  const profd::v1::Thread& ledger = thread.ledger;
  row->exited = ledger.exited() && (row->exited || row->threads == 0);
  ++row->threads;
  row->wall_ns += ledger.wall_ns();
  row->on_cpu_ns += ledger.on_cpu_ns();
  row->idle_ns += ledger.idle_ns();
  row->estimated_ns += ledger.estimated_ns();
  for (const profd::v1::ReasonTotal& off : ledger.off()) {
    const Reason reason = DescribeReason(off.reason()).reason;
    row->off_ns[reason] += off.time_ns();
    row->waits[reason] += off.waits();
  }
  AddDurations(ledger.off(), &row->durations);
  row->voluntary_switches += ledger.voluntary_switches();
  row->involuntary_switches += ledger.involuntary_switches();
  row->minor_faults += ledger.minor_faults();
  row->major_faults += ledger.major_faults();
  row->read_bytes += ledger.read_bytes();
  row->write_bytes += ledger.write_bytes();
  if (heap) row->allocated_bytes = row->allocated_bytes.value_or(0) + heap->bytes();
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

std::span<const ThreadSortInfo> AllThreadSorts() { return kSorts; }

ThreadSort ParseThreadSort(std::string_view name) {
  const auto it = std::find_if(kSorts.begin(), kSorts.end(),
                               [&](const ThreadSortInfo& info) { return info.name == name; });
  return it == kSorts.end() ? ThreadSort::kCpu : it->sort;
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
    Add(thread, known ? allocations->threads[i].heap : std::nullopt, row);
  }
  std::stable_sort(rows.begin(), rows.end(), [sort](const LedgerRow& a, const LedgerRow& b) {
    const double a_value = ValueOf(a, sort), b_value = ValueOf(b, sort);
    if (a_value != b_value) return a_value > b_value;
    return std::tie(a.process, a.name, a.tid) < std::tie(b.process, b.name, b.tid);
  });
  return rows;
}

}  // namespace profctl
