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

#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"
#include "spdlog/spdlog.h"

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

inline absl::StatusOr<std::vector<CounterEntry>> EmptyCounters(int table) {
  return EmptyTable<profd_sample_key, profd_sample_value>(table);
}

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_TABLES_H_
