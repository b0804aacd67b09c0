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
#include "daemon/service/text.h"

namespace profd {
namespace {

// Processes with sites: naming frames costs more than all else in the answer.
constexpr size_t kMostProcesses = 5;
// Of a function's name: all sites have room in one message.
constexpr size_t kMostName = 512;

struct AllocatingFunction {
  int64_t bytes = 0;
  double variance = 0;
};

}  // namespace

void FillSites(const MergedProfile& profile, const ProcessIds& ids,
               const std::vector<ProcessId>& listed, size_t most, FrameNames* names,
               v1::GetMemoryResponse* response) {
  std::map<ProcessId, v1::ProcessMemory*> wanted;
  for (size_t i = 0; i < std::min(listed.size(), kMostProcesses); i++) {
    v1::ProcessMemory* process = response->mutable_processes(static_cast<int>(i));
    if (process->allocated_bytes() > 0) wanted.emplace(listed[i], process);
  }
  if (wanted.empty()) return;
  NamedStacks stacks(profile.stacks, &profile.modules);
  for (const MergedThread& thread : profile.threads) {
    if (!wanted.contains(ids.Of(*thread.info))) continue;
    for (const Sample& sample : thread.samples) {
      if (sample.key.kind == Kind::kAlloc) {
        stacks.Add(sample.key.stack, ProcessIdOf(*thread.info));
      }
    }
  }
  stacks.Name(names);

  const SampleTypeInfo* const type = &DescribeSampleType(Kind::kAlloc);
  const Estimates estimates(profile, {&type, 1});
  std::map<ProcessId, std::map<std::string, AllocatingFunction>> sites;
  std::map<ProcessId, int64_t> totals;
  for (const MergedThread& thread : profile.threads) {
    const ProcessId id = ids.Of(*thread.info);
    if (!wanted.contains(id)) continue;
    for (const EstimatedSample& sample : estimates.Of(thread, *type)) {
      if (sample.amount <= 0) continue;
      const NamedFrame* origin =
          stacks.Origin(stacks.NumberOf(sample.key.stack, ProcessIdOf(*thread.info)));
      AllocatingFunction& site = sites[id][origin == nullptr ? "[unsampled]" : origin->function];
      const auto error = static_cast<double>(sample.error);
      site.bytes = WrappingAdd(site.bytes, sample.amount);
      site.variance += error * error;
      totals[id] = WrappingAdd(totals[id], sample.amount);
    }
  }
  for (const auto& [id, functions] : sites) {
    std::vector<std::pair<std::string, AllocatingFunction>> list(functions.begin(),
                                                                 functions.end());
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    list.resize(std::min(list.size(), most));
    for (const auto& [function, site] : list) {
      v1::AllocationSite* out = wanted[id]->add_sites();
      out->set_function(CleanText(function, kMostName));
      out->set_bytes(site.bytes);
      out->set_error_bytes(std::llround(std::min(std::sqrt(site.variance), 9e18)));
      out->set_process_bytes(totals[id]);
    }
  }
}

}  // namespace profd
