#include "daemon/source/source_list.h"

#include <string>
#include <utility>

#include "daemon/source/fault.h"
#include "daemon/source/jemalloc.h"
#include "daemon/source/live.h"
#include "daemon/source/malloc.h"
#include "daemon/source/mapping.h"
#include "daemon/source/memory.h"
#include "daemon/source/off.h"
#include "daemon/source/switch.h"
#include "daemon/source/told.h"
#include "daemon/source/wait.h"

namespace profd {
namespace {

constexpr char kNoMapProgram[] =
    "this kernel does not take its program (--log-level debug shows why)";

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
  void AddOff(const char* layer, const char* why) { Add<OffSource>(layer, why); }

 private:
  SourceList* const list_;
};

}  // namespace

SourceList MakeSources(const SourceOptions& options, const SourceContext& context, uint64_t seed) {
  SourceList list;
  Maker make(&list);
  const bool maps = context.kernel->has_map_layer();
  const bool bursts = options.bursts.interval_ns > 0;

  list.threads = make.Add<ThreadSource>(context, options.books);
  list.modules = make.Add<ModulesSource>(
      context, SoughtInModules{.allocators = options.heap, .libcs = maps, .glibcs = bursts},
      options.limits.rules);
  if (options.per_switch) {
    // Without the books nothing would tell how long threads ran while it is shed.
    make.Add<SwitchSource>(context, list.threads, options.books);
  } else {
    make.AddOff("switch", kDisabledNote);
  }
  if (options.tick) {
    make.Add<WaitSource>(context, options.tick_interval_ns, options.limits.counters, seed);
  } else {
    make.AddOff("tick", kDisabledNote);
  }
  if (options.heap) {
    const auto* told = make.Add<ToldSource>(context, list.threads, list.modules);
    make.Add<JemallocSource>(context, list.threads, list.modules, told, options.budgets.target,
                             seed + 1);
    make.Add<LiveSource>(context, list.modules, told);
  } else {
    make.AddOff("heap", kDisabledNote);
  }
  if (options.faults) {
    make.Add<FaultSource>(context, list.threads);
  } else {
    make.AddOff("faults", kDisabledNote);
  }
  if (maps) {
    make.Add<MappingSource>(context, list.modules);
  } else {
    make.AddOff("mappings", options.mappings ? kNoMapProgram : kDisabledNote);
  }
  if (bursts) {
    make.Add<MallocSource>(context, list.modules, options.bursts, seed + 2);
  } else {
    make.AddOff("bursts", kDisabledNote);
  }
  make.Add<MemorySource>(context);
  return list;
}

}  // namespace profd
