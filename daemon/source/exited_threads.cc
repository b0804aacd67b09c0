#include "daemon/source/exited_threads.h"

#include <numeric>
#include <utility>

#include "daemon/source/record.h"
#include "daemon/source/thread_totals.h"

namespace profd {
namespace {

// Numbers that no thread gets in the kernel.
constexpr uint64_t kFirstId = 1ULL << 63;
// Rows that nothing was added to are kept for so many drains, if there are not too many.
constexpr int kKeptDrains = 120;
constexpr size_t kMostRows = 2048;

}  // namespace

LedgerDelta LedgerOf(const profd_exited& exited, bool books) {
  LedgerDelta ledger;
  ledger.on_cpu_ns = static_cast<int64_t>(exited.on_cpu);
  ledger.unattributed_ns = static_cast<int64_t>(exited.unattributed);
  for (size_t i = 0; i < kReasonCount; ++i) {
    ledger.off_ns[i] = static_cast<int64_t>(exited.reasons[i].ns);
    ledger.waits[i] = static_cast<int64_t>(exited.reasons[i].count);
  }
  ledger.wall_ns = ledger.on_cpu_ns + ledger.unattributed_ns +
                   std::accumulate(ledger.off_ns.begin(), ledger.off_ns.end(), int64_t{0});
  if (books) EnterBooks(exited, &ledger);
  return ledger;
}

void ExitedThreads::Add(std::span<const ExitedEntry> entries) {
  for (const auto& [key, exited] : entries) {
    std::string process = key.pid != 0 ? "" : CommToString(key.process);
    if (key.pid != 0) names_[key.pid].name = CommToString(exited.process);
    if (key.pid == 0 && process.empty()) process = kOthers;
    pending_.emplace_back(Key{key.target_id, key.pid, std::move(process)},
                          LedgerOf(exited, books_));
  }
}

ExitedThreads::Row& ExitedThreads::RowOf(const Key& key) {
  Row& row = rows_[key];
  if (row.id == ThreadId{}) row.id = ThreadId{kFirstId + next_++};
  row.unused = 0;
  return row;
}

void ExitedThreads::Finish(ProfileDelta& delta, absl::FunctionRef<bool(int32_t pid)> alive) {
  for (auto& [key, row] : rows_) ++row.unused;
  for (const auto& [key, ledger] : pending_) {
    const auto& [target, pid, process] = key;
    ThreadInfo info;
    info.id = RowOf(key).id;
    info.pid = pid;
    info.target = target;
    info.name = kExitedThreads;
    info.process = pid != 0 ? names_[pid].name : process;
    if (pid != 0) info.process_start_ns = names_[pid].start_ns;
    info.exited = true;
    // Each time, because the process may have another name by now.
    delta.threads.push_back(std::move(info));
    delta.ledgers.push_back({rows_[key].id, ledger});
  }
  pending_.clear();
  names_.clear();
  const bool crowded = rows_.size() > kMostRows;
  std::erase_if(rows_, [&](const auto& entry) {
    const auto& [key, row] = entry;
    const int32_t pid = std::get<1>(key);
    return row.unused > (crowded ? 0 : kKeptDrains) || (pid != 0 && !alive(pid));
  });
}

}  // namespace profd
