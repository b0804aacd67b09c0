// A target that allocates, and the counters of that.
#ifndef PROFD_TESTS_BPF_HEAP_FIXTURE_H_
#define PROFD_TESTS_BPF_HEAP_FIXTURE_H_

#include <fcntl.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/base/fd.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/bpf/probed.h"

namespace profd {

class HeapKernelTest : public KernelTest {
 protected:
  static constexpr KernelOptions kHeap =
      WithLayers({&KernelOptions::switch_layer, &KernelOptions::heap_layer});
  static constexpr WatchId kModule{7};

  static ProbePlace EventPlace() {
    return {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestHeapEvent)),
            .cookie = PROFD_PROBE_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 7)};
  }
  void Attach(int32_t pid) {
    const ProbePlace place = EventPlace();
    Attach(pid, {&place, 1});
  }
  void Attach(int32_t pid, std::span<const ProbePlace> places) {
    ASSERT_NO_FATAL_FAILURE(Put(pid, places));
    for (const ProbePlace& place : places) {
      const auto module = static_cast<uint16_t>(PROFD_PROBE_WATCH(place.cookie));
      kernel_->SetHeapSettled(pid, WatchId{module}, true);
    }
  }
  // To functions of this program.
  void Put(int32_t pid, std::span<const ProbePlace> places) {
    const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    auto probe = kernel_->AttachHeapProbe(self.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }
  // Adds to `sums`, by kind.
  void AddHeapCounters() {
    const auto entries = kernel_->DrainHeapCounters();
    ASSERT_TRUE(entries.ok()) << entries.status();
    for (const auto& [key, value] : *entries) {
      sums_[key.kind].weight += value.weight;
      sums_[key.kind].count += value.count;
      stacks_of_[key.kind].insert(key.stack);
    }
  }
  std::vector<profd_heap_record> DrainHeap() {
    std::vector<profd_heap_record> records;
    const auto status = kernel_->DrainHeap([&](std::span<const uint8_t> bytes) {
      const auto record = DecodeRecord<profd_heap_record>(bytes);
      if (record.ok()) records.push_back(*record);
    });
    EXPECT_TRUE(status.ok()) << status;
    return records;
  }

  Probe probe_;
  std::map<uint32_t, profd_sample_value> sums_;
  std::map<uint32_t, std::set<uint64_t>> stacks_of_;
};

}  // namespace profd

#endif  // PROFD_TESTS_BPF_HEAP_FIXTURE_H_
