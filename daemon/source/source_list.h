// All sources there are.
#ifndef PROFD_DAEMON_SOURCE_SOURCE_LIST_H_
#define PROFD_DAEMON_SOURCE_SOURCE_LIST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/limits.h"
#include "daemon/govern/budget.h"
#include "daemon/source/context.h"
#include "daemon/source/cpu.h"
#include "daemon/source/malloc_bursts.h"
#include "daemon/source/module.h"
#include "daemon/source/source.h"
#include "daemon/source/thread.h"
#include "daemon/source/wait.h"

namespace profd {

struct SourceOptions {
  int64_t tick_interval_ns = 10'000'000;
  bool books = true;
  bool per_switch = true;
  bool tick = true;
  bool heap = true;
  bool faults = true;
  bool mappings = true;
  bool wakers = true;
  bool switch_stacks = true;
  CpuPlan cpu;
  bool disk = true;
  BurstPlan bursts = {.length_ns = 20'000'000, .interval_ns = 5'000'000'000};
  Budget budget;
  Limits limits;
};

struct SourceList {
  SourceList() = default;
  SourceList(SourceList&&) = default;
  // The last first: they use those before them.
  ~SourceList() {
    while (!all.empty()) all.pop_back();
  }

  ThreadSource* threads = nullptr;  // in `all`, as the next
  ModulesSource* modules = nullptr;
  WaitSource* waits = nullptr;  // null: without ticks
  // In the order of drains and of status.
  std::vector<std::unique_ptr<Source>> all;
};

// A source that is disabled, or whose programs the kernel refused, is there to say so.
SourceList MakeSources(const SourceOptions& options, const SourceContext& context, uint64_t seed);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SOURCE_LIST_H_
