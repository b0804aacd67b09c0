#include "daemon/service/allocation_sites.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/wrapping.h"
#include "daemon/profile/identity.h"
#include "daemon/profile/sample_type.h"
#include "daemon/service/estimates.h"
#include "daemon/service/named_stacks.h"

namespace profd {
namespace {

// Processes with sites: naming frames costs more than all else in the answer.
constexpr int kMostProcesses = 5;

struct Site {
  int64_t bytes = 0;
  double variance = 0;
};

}  // namespace

void FillSites(const MergedProfile& profile, size_t most, FrameNames* names,
               v1::GetMemoryResponse* response) {
  std::map<int32_t, v1::ProcessMemory*> wanted;
  for (int i = 0; i < std::min(response->processes_size(), kMostProcesses); i++) {
    v1::ProcessMemory* process = response->mutable_processes(i);
    if (process->allocated_bytes() > 0) wanted.emplace(process->pid(), process);
  }
  if (wanted.empty()) return;
  NamedStacks stacks(profile.stacks);
  for (const MergedThread& thread : profile.threads) {
    if (!wanted.contains(thread.info.pid)) continue;
    for (const Sample& sample : thread.samples) {
      if (sample.key.kind == Kind::kAlloc) {
        stacks.Add(sample.key.stack, ProcessIdOf(thread.info));
      }
    }
  }
  stacks.Name(names);

  const SampleTypeInfo* const type = &DescribeSampleType(Kind::kAlloc);
  const Estimates estimates(profile, {&type, 1});
  std::map<int32_t, std::map<std::string, Site>> sites;
  std::map<int32_t, int64_t> totals;
  for (const MergedThread& thread : profile.threads) {
    if (!wanted.contains(thread.info.pid)) continue;
    for (const EstimatedSample& sample : estimates.Of(thread, *type)) {
      if (sample.amount <= 0) continue;
      const NamedFrame* origin =
          stacks.Origin(stacks.NumberOf(sample.key.stack, ProcessIdOf(thread.info)));
      Site& site = sites[thread.info.pid][origin == nullptr ? "[unsampled]" : origin->function];
      const auto error = static_cast<double>(sample.error);
      site.bytes = WrappingAdd(site.bytes, sample.amount);
      site.variance += error * error;
      totals[thread.info.pid] = WrappingAdd(totals[thread.info.pid], sample.amount);
    }
  }
  for (const auto& [pid, functions] : sites) {
    std::vector<std::pair<std::string, Site>> list(functions.begin(), functions.end());
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    list.resize(std::min(list.size(), most));
    for (const auto& [function, site] : list) {
      v1::AllocationSite* out = wanted[pid]->add_sites();
      out->set_function(function);
      out->set_bytes(site.bytes);
      out->set_error_bytes(std::llround(std::min(std::sqrt(site.variance), 9e18)));
      out->set_process_bytes(totals[pid]);
    }
  }
}

}  // namespace profd
