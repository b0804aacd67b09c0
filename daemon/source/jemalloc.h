// The source `jemalloc`: bytes that threads allocate and free, from the allocator's own counters,
// and their stacks at its allocation events.
#ifndef PROFD_DAEMON_SOURCE_JEMALLOC_H_
#define PROFD_DAEMON_SOURCE_JEMALLOC_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/heap_accounts.h"
#include "daemon/source/jemalloc_knob.h"
#include "daemon/source/module.h"
#include "daemon/source/slices.h"
#include "daemon/source/source.h"
#include "daemon/source/thread.h"
#include "daemon/source/told.h"

namespace profd {

class JemallocSource final : public Source {
 public:
  // `modules` must have probes. All must outlive this.
  JemallocSource(const SourceContext& context, const ThreadSource* threads, ModulesSource* modules,
                 const ToldSource* told, uint64_t seed);

  const char* name() const override { return "jemalloc"; }
  void Detach() override { detached_ = true; }
  absl::Status Apply() override;
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  absl::Status Drain(ProfileDelta& delta) override;
  int64_t next_ns() const override { return slices_.next_ns(); }
  // Attaches or removes probes, as the slices require.
  void Step() override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;
  void Publish(CollectorState& state) const override;

 private:
  // Cumulative values from which the knob learns.
  struct Counts {
    int64_t events = 0;
    int64_t seen_bytes = 0;
    int64_t bytes = 0;
    int64_t told = 0;
  };
  // Reads the totals of threads, again where the memory map was locked.
  absl::Status Read();
  // Reports the bytes allocated per process to the memory watch, from the ledgers from `begin` on.
  void SumGrowth(const ProfileDelta& delta, size_t begin);
  // Turns on probes in the slow paths of allocators that miss too many events.
  void WatchSlowPaths();

  const SourceContext context_;
  const ThreadSource* const threads_;
  ModulesSource* const modules_;
  const ToldSource* const told_;
  JemallocKnob knob_;
  Slices slices_;
  HeapAccounts accounts_;
  std::map<int32_t, HeapGrowth> growth_;  // by PID, since the last drain
  uint64_t drains_ = 0;
  bool read_whole_ = true;
  uint64_t late_ = 0;  // threads with totals that the last pass could not read
  bool detached_ = false;
  Counts learned_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_JEMALLOC_H_
