// What the kernel programs counted, since start.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/tables.h"

namespace profd {
namespace {

// Kernel memory of a value stored with a thread, in addition to the value: the element's header,
// and the thread's table of such values.
constexpr uint64_t kThreadValueBytes = 256;

profd_probe_cost SumProbeCost(int fd) {
  return SumPerCpu<profd_probe_cost>(fd, 0, [](profd_probe_cost& sum, const profd_probe_cost& v) {
    sum.events += v.events;
    sum.stepped += v.stepped;
    sum.walks += v.walks;
    sum.ns += v.ns;
    sum.walk_ns += v.walk_ns;
    sum.closed += v.closed;
  });
}

// "memlock:" of a map's fdinfo, bytes.
uint64_t MapMemory(int fd) {
  const auto info = ReadWholeFile(absl::StrCat("/proc/self/fdinfo/", fd), 1 << 16);
  if (!info.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*info, '\n')) {
    if (!absl::ConsumePrefix(&line, "memlock:")) continue;
    uint64_t bytes = 0;
    return absl::SimpleAtoi(line, &bytes) ? bytes : 0;
  }
  return 0;
}

}  // namespace

std::vector<uint64_t> BpfKernel::Losses() const {
  std::vector<uint64_t> totals(PROFD_LOSS_COUNT);
  for (uint32_t i = 0; i < PROFD_LOSS_COUNT; ++i) {
    totals[i] = SumPerCpu<uint64_t>(bpf_map__fd(skeleton_->maps.losses), i,
                                    [](uint64_t& sum, const uint64_t& v) { sum += v; });
  }
  return totals;
}

profd_tick_stats BpfKernel::TickStats() const {
  profd_tick_stats stats{};
  const uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.tick_stats), &zero, &stats) != 0) return {};
  return stats;
}

profd_probe_cost BpfKernel::HeapCost() const {
  return SumProbeCost(bpf_map__fd(skeleton_->maps.heap_cost));
}

profd_probe_cost BpfKernel::MapCost() const {
  return SumProbeCost(bpf_map__fd(skeleton_->maps.map_cost));
}

profd_fault_cost BpfKernel::FaultCost() const {
  return SumPerCpu<profd_fault_cost>(bpf_map__fd(skeleton_->maps.fault_cost), 0,
                                     [](profd_fault_cost& sum, const profd_fault_cost& v) {
                                       sum.faults += v.faults;
                                       sum.timed += v.timed;
                                       sum.timed_ns += v.timed_ns;
                                       sum.walks += v.walks;
                                       sum.walk_ns += v.walk_ns;
                                       sum.unsure += v.unsure;
                                     });
}

profd_malloc_cost BpfKernel::MallocCost() const {
  return SumPerCpu<profd_malloc_cost>(bpf_map__fd(skeleton_->maps.malloc_cost), 0,
                                      [](profd_malloc_cost& sum, const profd_malloc_cost& v) {
                                        sum.calls += v.calls;
                                        sum.stepped += v.stepped;
                                        sum.ns += v.ns;
                                      });
}

profd_switch_cost BpfKernel::SwitchCost() const {
  return SumPerCpu<profd_switch_cost>(bpf_map__fd(skeleton_->maps.switch_cost), 0,
                                      [](profd_switch_cost& sum, const profd_switch_cost& v) {
                                        sum.timed += v.timed;
                                        sum.timed_ns += v.timed_ns;
                                      });
}

std::vector<ProgramMisses> BpfKernel::Misses() const {
  std::vector<ProgramMisses> misses;
  bpf_program* program = nullptr;
  while ((program = bpf_object__next_program(skeleton_->obj, program)) != nullptr) {
    const int fd = bpf_program__fd(program);
    // A read of memory that is not there faults within a page fault's program, too: nothing is
    // missed. Nothing else can come between but an NMI, which only reads so, too.
    if (fd < 0 || program == skeleton_->progs.on_fault) continue;
    bpf_prog_info info{};
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) continue;
    misses.push_back({bpf_program__name(program), info.recursion_misses});
  }
  return misses;
}

std::vector<CodeRange> BpfKernel::OwnCode() const {
  std::vector<CodeRange> ranges;
  bpf_program* program = nullptr;
  while ((program = bpf_object__next_program(skeleton_->obj, program)) != nullptr) {
    const int fd = bpf_program__fd(program);
    bpf_prog_info info{};
    uint32_t size = sizeof(info);
    if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) != 0) continue;
    // A program and its functions, each of which lies elsewhere.
    std::vector<uint64_t> begins(info.nr_jited_ksyms);
    std::vector<uint32_t> lengths(info.nr_jited_func_lens);
    info = {};
    info.nr_jited_ksyms = static_cast<uint32_t>(begins.size());
    info.jited_ksyms = reinterpret_cast<uint64_t>(begins.data());
    info.nr_jited_func_lens = static_cast<uint32_t>(lengths.size());
    info.jited_func_lens = reinterpret_cast<uint64_t>(lengths.data());
    size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) continue;
    for (size_t i = 0; i < std::min(begins.size(), lengths.size()); ++i) {
      if (begins[i] != 0) ranges.push_back({begins[i], begins[i] + lengths[i]});
    }
  }
  return ranges;
}

uint64_t BpfKernel::MapBytes(uint64_t threads, uint64_t heap_threads) const {
  const auto stored = [](uint64_t count, const bpf_map* map) {
    return count * (bpf_map__value_size(map) + kThreadValueBytes);
  };
  uint64_t bytes = stored(threads, skeleton_->maps.threads) +
                   stored(heap_threads, skeleton_->maps.heaps) + rule_bytes_;
  bpf_map* map = nullptr;
  while ((map = bpf_object__next_map(skeleton_->obj, map)) != nullptr) {
    if (const int fd = bpf_map__fd(map); fd >= 0) bytes += MapMemory(fd);
  }
  return bytes;
}

}  // namespace profd
