// The source `live`: the live heap by stack, from the objects that jemalloc samples.
#ifndef PROFD_DAEMON_SOURCE_LIVE_H_
#define PROFD_DAEMON_SOURCE_LIVE_H_

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/live_heap.h"
#include "daemon/source/module.h"
#include "daemon/source/source.h"
#include "daemon/source/told.h"

namespace profd {

// Part of the layer `heap`. After `jemalloc` in the list, because it completes the status of its
// allocators.
class LiveSource final : public Source {
 public:
  // `modules` must have probes. All must outlive this.
  LiveSource(const SourceContext& context, ModulesSource* modules, const ToldSource* told)
      : context_(context), modules_(modules), told_(told) {}

  const char* name() const override { return "live"; }
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  absl::Status Drain(ProfileDelta& delta) override;
  void OnProcesses(const std::set<int32_t>& pids) override;
  // Adds the live heap to each allocator, from samples or from reported objects.
  void Publish(CollectorState& state) const override;

 private:
  const SourceContext context_;
  ModulesSource* const modules_;
  const ToldSource* const told_;
  LiveHeap heap_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_LIVE_H_
