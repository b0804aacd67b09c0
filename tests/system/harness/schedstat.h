// The kernel's account of threads, read from outside: /proc/PID/task/TID/schedstat.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_SCHEDSTAT_H_
#define PROFD_TESTS_SYSTEM_HARNESS_SCHEDSTAT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/system/harness/daemon.h"

namespace profd::e2e {

struct ThreadTimes {
  int64_t on_cpu_ns = 0;
  int64_t runqueue_ns = 0;
};
using Schedstat = std::map<int, ThreadTimes>;  // by TID

// All threads of these processes; those that end meanwhile are left out. `charged`: each once its
// time in the queue up to now is in its account (whoever gets no CPU for 10 s is left out).
Schedstat ReadSchedstat(const std::vector<int>& pids, bool charged = false);

// Time that a hypervisor kept all CPUs from running since the machine began, ns, as far as it says
// so; in steps of a hundredth of a second. profd counts it as waiting for a CPU, the kernel's
// account does not.
int64_t StolenNs();

// The processes whose parent is `pid`, and `pid` itself.
std::vector<int> WithChildren(int pid);

// An edge of a window: the instant up to which profd accounted, and the kernel's account of the
// threads before and after it. `after` holds the time in the queue up to the edge.
struct Edge {
  int64_t wall_ns = 0;
  Schedstat before, after;
  // StolenNs() before the fetch, and after `after` was read: the edge lies between.
  int64_t stolen_before_ns = 0, stolen_after_ns = 0;
  Answer answer;  // of the fetch that made the edge
};
absl::StatusOr<Edge> MakeEdge(const Daemon& daemon, const v1::FetchRequest& request,
                              const std::vector<int>& pids);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_SCHEDSTAT_H_
