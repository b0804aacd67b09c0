#include "tests/unit/fixture_memory.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace profctl {
namespace {

using profd::v1::MemoryPoint;
using profd::v1::ProcessMemory;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBegin = 1'769'864'700 * kSecond;  // 2026-01-31T13:05:00Z
constexpr int kPoints = 13;

}  // namespace

profd::v1::GetMemoryResponse GrowingMemory() {
  profd::v1::GetMemoryResponse memory;
  memory.set_hostname("node-7");
  memory.set_begin_ns(kBegin);
  memory.set_end_ns(kBegin + 60 * kSecond);
  memory.set_heap_ns(60 * kSecond);
  ProcessMemory& reth = *memory.add_processes();
  reth.set_pid(4242);
  reth.set_name("reth");
  reth.set_started_ns(kBegin - 7200 * kSecond);
  reth.set_peak_rss_bytes(1274 * kMiB);
  reth.mutable_cgroup()->set_path("/kubepods/pod7/reth");
  reth.mutable_cgroup()->set_version(2);
  reth.set_allocated_bytes(1271 * kMiB);
  reth.set_freed_bytes(1259 * kMiB);
  reth.set_allocator("jemalloc 5.3.0");
  reth.set_net_allocated_bytes(12 * kMiB);
  for (int i = 0; i < kPoints; ++i) {
    MemoryPoint& point = *reth.add_points();
    point.set_time_ns(kBegin + i * 5 * kSecond);
    // A MiB each 5 s; what is freed and taken again lies on top of it.
    const int64_t anon = (1120 + i) * kMiB + (i % 3) * 300 * 1024;
    point.set_anon_bytes(anon);
    point.set_file_bytes(142 * kMiB);
    point.set_shmem_bytes(0);
    point.set_rss_bytes(anon + 142 * kMiB);
    point.set_swap_bytes(0);
    point.set_page_table_bytes(3 * kMiB + 140 * 1024);
    point.set_threads(54);
    point.set_minor_faults(1'000'000 + i * 6015);
    point.set_major_faults(12 + i);
    point.set_pss_bytes(1255 * kMiB);
    point.set_pss_time_ns(kBegin + 53 * kSecond - (12 - i) * kSecond);
    point.set_cgroup_current_bytes((1331 + i) * kMiB);
    point.set_cgroup_limit_bytes(2048 * kMiB);
    point.set_cgroup_oom_kills(1);
    point.set_cgroup_limit_hits(i < 6 ? 4 : 7);
    point.set_cgroup_high_hits(0);
    point.set_allocated_bytes(i * 106 * kMiB);
    point.set_freed_bytes(i * 105 * kMiB);
  }
  return memory;
}

profd::v1::GetMemoryResponse ManyMemories() {
  profd::v1::GetMemoryResponse memory = GrowingMemory();
  ProcessMemory& killed = *memory.add_processes();
  killed.set_pid(77);
  killed.set_name("evil\x1b[31m\nname");
  killed.set_started_ns(kBegin);
  killed.set_ended(true);
  killed.set_live_bytes(300 * kMiB);
  for (int i = 0; i < 2; ++i) {
    MemoryPoint& point = *killed.add_points();
    point.set_time_ns(kBegin + i * 5 * kSecond);
    point.set_rss_bytes((300 + 100 * i) * kMiB);
    point.set_anon_bytes((300 + 100 * i) * kMiB);
    point.set_threads(1);
  }
  for (int i = 0; i < 7; ++i) {
    ProcessMemory& small = *memory.add_processes();
    small.set_pid(100 + i);
    small.set_name(absl::StrCat("worker-", i));
    small.set_started_ns(kBegin - 60 * kSecond);
    if (i == 0) small.set_note("PSS is not known: profd needs CAP_SYS_PTRACE");
    MemoryPoint& point = *small.add_points();
    point.set_time_ns(kBegin + 60 * kSecond);
    if (i != 1) point.set_rss_bytes((20 - i) * kMiB);
    point.set_cgroup_current_bytes(64 * kMiB);
  }
  memory.set_processes_left_out(2);
  memory.set_processes_unwatched(3);
  memory.add_notes("the memory of 3 smaller processes is not watched: there are too many");
  profd::v1::Loss& loss = *memory.add_losses();
  loss.set_cause("memory_dropped");
  loss.set_count(1200);
  loss.set_help("Points of the memory timeline dropped before their age, to keep the byte limit.");
  return memory;
}

}  // namespace profctl
