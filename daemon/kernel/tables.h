// Reading tables of the kernel programs.
#ifndef PROFD_DAEMON_KERNEL_TABLES_H_
#define PROFD_DAEMON_KERNEL_TABLES_H_

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"

namespace profd {

// The sum of what each CPU has there.
template <typename T>
T SumPerCpu(int fd, uint32_t key, void (*add)(T&, const T&)) {
  T total{};
  const int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return total;
  std::vector<T> values(static_cast<size_t>(cpus));
  if (bpf_map_lookup_elem(fd, &key, values.data()) != 0) return total;
  for (const T& value : values) add(total, value);
  return total;
}

// Takes everything out of a table.
template <typename Key, typename Value>
absl::StatusOr<std::vector<std::pair<Key, Value>>> EmptyTable(int table) {
  constexpr uint32_t kBatch = 1024;
  static thread_local std::vector<Key> keys(kBatch);
  static thread_local std::vector<Value> values(kBatch);
  std::vector<std::pair<Key, Value>> entries;
  uint32_t cursor = 0;
  bool first = true;
  while (true) {
    uint32_t count = kBatch;
    const int error = bpf_map_lookup_and_delete_batch(table, first ? nullptr : &cursor, &cursor,
                                                      keys.data(), values.data(), &count, nullptr);
    const int reason = errno;
    const bool failed = error != 0 && reason != ENOENT;
    // It may fail after some entries, which are out of the map then. A call that is refused leaves
    // the number as it was.
    if (failed && count == kBatch) count = 0;
    for (uint32_t i = 0; i < count; ++i) entries.emplace_back(keys[i], values[i]);
    if (failed) {
      // What is still in the map comes with the next drain of this epoch.
      if (entries.empty()) return ErrnoStatus("drain the counters", reason);
      LogWarning("counters drained in part: ", std::strerror(reason));
      return entries;
    }
    if (error != 0) return entries;
    first = false;
  }
}

// Everything that is in a table, which has `most` entries at most.
template <typename Key, typename Value>
absl::StatusOr<std::vector<std::pair<Key, Value>>> ReadTable(int table, uint32_t most) {
  std::vector<Key> keys(most);
  std::vector<Value> values(most);
  std::vector<std::pair<Key, Value>> entries;
  uint32_t cursor = 0;
  uint32_t count = most;
  if (bpf_map_lookup_batch(table, nullptr, &cursor, keys.data(), values.data(), &count, nullptr) !=
          0 &&
      errno != ENOENT) {
    return ErrnoStatus("read a table", errno);
  }
  for (uint32_t i = 0; i < count; ++i) entries.emplace_back(keys[i], values[i]);
  return entries;
}

inline absl::StatusOr<std::vector<CounterEntry>> EmptyCounters(int table) {
  return EmptyTable<profd_sample_key, profd_sample_value>(table);
}

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_TABLES_H_
