#include "daemon/kernel/exited_table.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "daemon/kernel/tables.h"

namespace profd {
namespace {

// Beyond this share of its entries a table is done with early.
constexpr uint32_t kNearlyFull = 2;

// What an entry grew by; false: nothing.
bool Grown(const profd_exited& now, const profd_exited& before, profd_exited& grown) {
  grown = now;
  uint64_t any = 0;
  const auto subtract = [&](uint64_t& sum, uint64_t earlier) {
    sum -= earlier;
    any |= sum;
  };
  subtract(grown.threads, before.threads);
  subtract(grown.on_cpu, before.on_cpu);
  subtract(grown.unattributed, before.unattributed);
  for (size_t i = 0; i < PROFD_REASON_COUNT; ++i) {
    subtract(grown.reasons[i].ns, before.reasons[i].ns);
    subtract(grown.reasons[i].count, before.reasons[i].count);
  }
  subtract(grown.exec_runtime, before.exec_runtime);
  subtract(grown.run_delay, before.run_delay);
  subtract(grown.nvcsw, before.nvcsw);
  subtract(grown.nivcsw, before.nivcsw);
  subtract(grown.min_flt, before.min_flt);
  subtract(grown.maj_flt, before.maj_flt);
  subtract(grown.read_bytes, before.read_bytes);
  subtract(grown.write_bytes, before.write_bytes);
  return any != 0;
}

}  // namespace

bool ExitedTable::KeyLess::operator()(const profd_exited_key& a, const profd_exited_key& b) const {
  return std::memcmp(&a, &b, sizeof(a)) < 0;
}

absl::Status ExitedTable::DrainEpoch(uint32_t epoch, bool empty, std::vector<ExitedEntry>& grown) {
  const int table = epoch == 0 ? maps_.even : maps_.odd;
  ASSIGN_OR_RETURN(const auto entries,
                   (empty ? EmptyTable<profd_exited_key, profd_exited>(table)
                          : ReadTable<profd_exited_key, profd_exited>(table, maps_.entries)));
  Seen& seen = seen_[epoch];
  for (const auto& [key, now] : entries) {
    profd_exited growth;
    profd_exited& before = seen[key];
    if (Grown(now, before, growth)) grown.emplace_back(key, growth);
    before = now;
    if (empty) seen.erase(key);
  }
  return absl::OkStatus();
}

absl::Status ExitedTable::DrainRest(std::vector<ExitedEntry>& grown) {
  if (*static_cast<volatile uint32_t*>(maps_.rest_used) == 0) return absl::OkStatus();
  for (uint32_t target = 0; target < PROFD_EXITED_TARGETS; ++target) {
    profd_exited now{}, growth;
    if (bpf_map_lookup_elem(maps_.rest, &target, &now) != 0) {
      return ErrnoStatus("read the accounts of exited threads", errno);
    }
    profd_exited& before = rest_seen_[target];
    if (Grown(now, before, growth))
      grown.emplace_back(profd_exited_key{.target_id = target, .pid = 0, .process = {}}, growth);
    before = now;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ExitedEntry>> ExitedTable::Drain(int64_t now_ns) {
  std::vector<ExitedEntry> grown;
  const uint32_t live = *static_cast<volatile uint32_t*>(maps_.epoch);
  const uint32_t idle = 1 - live;
  if (old_left_) {
    const bool empty = now_ns - changed_ns_ >= kGraceNs;
    RETURN_IF_ERROR(DrainEpoch(idle, empty, grown));
    old_left_ = !empty || !seen_[idle].empty();
  }
  if (absl::Status status = DrainEpoch(live, false, grown); !status.ok()) {
    // What was taken out is not to be lost.
    if (grown.empty()) return status;
    return grown;
  }
  if (absl::Status status = DrainRest(grown); !status.ok() && grown.empty()) return status;
  const size_t entries = seen_[live].size();
  if (old_left_ || entries == 0) return grown;
  if (entries < maps_.entries / kNearlyFull && now_ns - changed_ns_ < kKeptNs) return grown;
  std::atomic_ref(*maps_.epoch).store(idle);
  old_left_ = true;
  changed_ns_ = now_ns;
  return grown;
}

}  // namespace profd
