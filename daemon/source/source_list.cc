#include "daemon/source/source_list.h"

#include <string>
#include <utility>

#include "daemon/source/disk.h"
#include "daemon/source/fault.h"
#include "daemon/source/jemalloc.h"
#include "daemon/source/live.h"
#include "daemon/source/long_wait.h"
#include "daemon/source/malloc.h"
#include "daemon/source/mapping.h"
#include "daemon/source/memory.h"
#include "daemon/source/off.h"
#include "daemon/source/switch.h"
#include "daemon/source/switch_stack.h"
#include "daemon/source/told.h"
#include "daemon/source/waker.h"

namespace profd {
namespace {

// Why a source is off; empty when it is not.
std::string WhyOff(bool enabled, const Kernel& kernel, KernelLayer layer) {
  return enabled ? kernel.refusal(layer) : kDisabledNote;
}

// Adds sources to the list.
class Maker {
 public:
  explicit Maker(SourceList* list) : list_(list) {}

  template <typename T, typename... Arguments>
  T* Add(Arguments&&... arguments) {
    auto source = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T* const added = source.get();
    list_->all.push_back(std::move(source));
    return added;
  }
  // Says which layer is off, and why.
  void AddOff(const char* layer, const std::string& why) { Add<OffSource>(layer, why); }

 private:
  SourceList* const list_;
};

}  // namespace

SourceList MakeSources(const SourceOptions& options, const SourceContext& context, uint64_t seed) {
  SourceList list;
  Maker make(&list);
  const auto why_off = [&](bool enabled, KernelLayer layer) {
    return WhyOff(enabled, *context.kernel, layer);
  };
  const std::string no_switch = why_off(options.per_switch, KernelLayer::kSwitch);
  const std::string no_heap = why_off(options.heap, KernelLayer::kHeap);
  const std::string no_faults = why_off(options.faults, KernelLayer::kFault);
  const std::string no_mappings = why_off(options.mappings, KernelLayer::kMap);
  const std::string no_bursts = why_off(options.bursts.interval_ns > 0, KernelLayer::kMalloc);
  const std::string no_wakers = why_off(options.wakers && options.tick, KernelLayer::kWaker);
  const std::string no_switch_stacks =
      why_off(options.switch_stacks && options.per_switch, KernelLayer::kSwitchStack);
  const std::string no_cpu = why_off(options.cpu.interval_ns > 0, KernelLayer::kCpu);
  const std::string no_disk = why_off(options.disk, KernelLayer::kDisk);

  list.threads = make.Add<ThreadSource>(context, options.books);
  list.modules = make.Add<ModulesSource>(
      context,
      SoughtInModules{
          .allocators = no_heap.empty(), .libcs = no_mappings.empty(), .glibcs = no_bursts.empty()},
      ModuleLimits{
          .modules = options.limits.modules, .rule_bytes = options.limits.rules, .retired = {}});
  const SwitchSource* switches = nullptr;
  if (no_switch.empty()) {
    // Without the books nothing would tell how long threads ran while it is shed.
    switches = make.Add<SwitchSource>(context, list.threads, options.books);
  } else {
    make.AddOff("switch", no_switch);
  }
  if (options.tick) {
    list.waits =
        make.Add<WaitSource>(context, options.tick_interval_ns, options.limits.counters, seed);
  } else {
    make.AddOff("tick", kDisabledNote);
  }
  make.Add<LongWaitSource>(context, list.waits == nullptr ? nullptr : &list.waits->sampler());
  if (no_heap.empty()) {
    const auto* told = make.Add<ToldSource>(context, list.threads, list.modules);
    make.Add<JemallocSource>(context, list.threads, list.modules, told, seed + 1);
    make.Add<LiveSource>(context, list.modules, told);
  } else {
    make.AddOff("heap", no_heap);
  }
  if (no_faults.empty()) {
    make.Add<FaultSource>(context, list.threads);
  } else {
    make.AddOff("faults", no_faults);
  }
  if (no_mappings.empty()) {
    make.Add<MappingSource>(context, list.modules);
  } else {
    make.AddOff("mappings", no_mappings);
  }
  if (no_bursts.empty()) {
    make.Add<MallocSource>(context, list.modules, options.bursts, seed + 2);
  } else {
    make.AddOff("bursts", no_bursts);
  }
  if (no_cpu.empty()) {
    make.Add<CpuSource>(context, list.threads, options.cpu, seed + 3);
  } else {
    make.AddOff("cpu", no_cpu);
  }
  if (no_disk.empty()) {
    make.Add<DiskSource>(context);
  } else {
    make.AddOff("disk", no_disk);
  }
  if (no_wakers.empty()) {
    make.Add<WakerSource>(context, list.threads, switches);
  } else {
    make.AddOff("wakers", no_wakers);
  }
  if (no_switch_stacks.empty()) {
    make.Add<SwitchStackSource>(context, list.threads);
  } else {
    make.AddOff("switch-stacks", no_switch_stacks);
  }
  make.Add<MemorySource>(context);
  return list;
}

}  // namespace profd
