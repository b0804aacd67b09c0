// The source `told`: objects that programs sample and report themselves, at USDT probes.
#ifndef PROFD_DAEMON_SOURCE_TOLD_H_
#define PROFD_DAEMON_SOURCE_TOLD_H_

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/module.h"
#include "daemon/source/source.h"
#include "daemon/source/thread.h"
#include "daemon/source/told_heap.h"

namespace profd {

// Part of the layer `heap`, with the same knob as `jemalloc`. Before `jemalloc` in the list, which
// separates the bytes before and after an exec.
class ToldSource final : public Source {
 public:
  // `modules` must have probes. All must outlive this.
  ToldSource(const SourceContext& context, const ThreadSource* threads, ModulesSource* modules)
      : context_(context), threads_(threads), modules_(modules) {}

  const ToldHeap& heap() const { return heap_; }

  const char* name() const override { return "told"; }
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  absl::Status Drain(ProfileDelta& delta) override;
  void OnProcesses(const std::set<int32_t>& pids) override;

 private:
  const SourceContext context_;
  const ThreadSource* const threads_;
  ModulesSource* const modules_;
  ToldHeap heap_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_TOLD_H_
