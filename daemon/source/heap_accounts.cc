#include "daemon/source/heap_accounts.h"

#include <algorithm>
#include <utility>

#include "daemon/base/wrapping.h"

namespace profd {
namespace {

// Growth of a counter since `last`, or since its base if `last` is another counter. Counters only
// grow, but that of an exiting thread may be read as of its last event, which was reported before.
// Counters are in the target's memory and may hold anything: a decrease counts as zero, other
// differences wrap.
HeapDelta Growth(const profd_heap_counter& now, const profd_heap_counter& last) {
  const bool same = last.address == now.address;
  const auto since = [](uint64_t after, uint64_t before) {
    return static_cast<int64_t>(after - before);
  };
  return {.bytes = std::max<int64_t>(0, since(now.total, same ? last.total : now.base)),
          .seen_bytes = since(now.seen, same ? last.seen : 0),
          .unseen_bytes = since(now.unseen, same ? last.unseen : 0),
          .events = since(now.events, same ? last.events : 0),
          .gaps = since(now.gaps, same ? last.gaps : 0),
          .late_bytes = since(now.late, same ? last.late : 0)};
}

}  // namespace

void HeapAccounts::Apply(const profd_heap_record& record, bool count) {
  const ThreadId id{record.thread_id};
  const bool was_unread = unread_.contains(id);
  if (record.exiting == 0 && record.unread != 0) {
    unread_.insert(id);
  } else {
    unread_.erase(id);
  }
  if (record.exiting != 0 && record.unread != 0) {
    (was_unread ? unseen_.lost : unseen_.quiet).push_back(id);
  }
  if (record.heap.counters[0].address == 0 && !threads_.contains(id)) return;
  Thread& thread = threads_[id];
  for (size_t i = 0; i < PROFD_HEAP_COUNTERS; ++i) {
    const profd_heap_counter& now = record.heap.counters[i];
    if (now.address == 0) break;
    const HeapDelta growth = Growth(now, thread.last[i]);
    const profd_heap_counter last = std::exchange(thread.last[i], now);
    if (growth.bytes == 0 && last.address == now.address) thread.last[i].total = last.total;
    const bool freed = now.kind == PROFD_KIND_FREE;
    if (count && last.address != now.address && now.base != 0) {
      const auto base = static_cast<int64_t>(now.base);
      unseen_.before.emplace_back(id, freed ? WrappingSubtract(0, base) : base);
    }
    if (!count || (growth.bytes == 0 && growth.events == 0)) continue;
    AllocatorTotals& totals = allocators_[WatchId{static_cast<uint16_t>(now.watch_id)}];
    AddHeap(growth, freed ? &thread.pending.freed : &thread.pending.allocated);
    AddHeap(growth, freed ? &totals.freed : &totals.allocated);
    events_ = WrappingAdd(events_, growth.events);
    bytes_ = WrappingAdd(bytes_, growth.bytes);
    seen_bytes_ = WrappingAdd(seen_bytes_, growth.seen_bytes);
    thread.changed = true;
  }
  thread.exited = thread.exited || record.exiting != 0;
}

void HeapAccounts::KeepOnly(absl::FunctionRef<bool(ThreadId)> is_known) {
  absl::erase_if(threads_, [&](const auto& entry) { return !is_known(entry.first); });
  absl::erase_if(unread_, [&](ThreadId id) { return !is_known(id); });
}

void HeapAccounts::KeepOnlyModules(absl::FunctionRef<bool(WatchId)> is_known) {
  std::erase_if(allocators_, [&](const auto& entry) { return !is_known(entry.first); });
}

void HeapAccounts::Finish(ProfileDelta& delta) {
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread& thread = it->second;
    if (thread.changed) delta.ledgers.push_back({.thread = it->first, .delta = thread.pending});
    thread.pending = {};
    thread.changed = false;
    if (thread.exited) {
      threads_.erase(it++);
    } else {
      ++it;
    }
  }
}

}  // namespace profd
