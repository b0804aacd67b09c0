// Mapping calls of libc.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <functional>

#include "daemon/heap/map_calls.h"
#include "daemon/heap/probe_point.h"
#include "tests/bpf/heap_fixture.h"
#include "tests/bpf/kernel_fixture.h"

extern "C" [[gnu::noinline]] char* ProfdTestMaps(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  asm volatile("" ::: "memory");
  return static_cast<char*>(memory);
}

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kPage = 4096;

class MapKernelTest : public HeapKernelTest {
 protected:
  static constexpr KernelOptions kMaps =
      WithLayers({&KernelOptions::switch_layer, &KernelOptions::map_layer});

  // Into the libc of this program, for one process.
  Probe AttachCalls(int32_t pid) {
    Dl_info place;
    if (dladdr(reinterpret_cast<void*>(&mmap), &place) == 0) return {};
    const UniqueFd libc(open(place.dli_fname, O_RDONLY | O_CLOEXEC));
    const auto calls = FindMapCalls(libc.get());
    EXPECT_TRUE(calls.ok()) << calls.status();
    std::vector<ProbePlace> places;
    if (calls.ok()) {
      for (const MapCall& call : *calls) {
        places.push_back(
            {.offset = call.offset, .cookie = PROFD_PROBE_COOKIE(call.call, call.stepped, 0)});
      }
    }
    EXPECT_THAT(places, SizeIs(5));
    auto probe = kernel_->AttachMapProbe(libc.get(), pid, places);
    EXPECT_TRUE(probe.ok()) << probe.status();
    return probe.ok() ? *std::move(probe) : Probe();
  }
  // A child does `what`, and `sums_` are of that alone.
  void Count(const std::function<void()>& what, bool is_target = true) {
    const Child child([&](Child& me) {
      me.Wait();
      what();
      me.Signal();
      WaitForever();
    });
    if (is_target) Mark(child);
    const Probe probe = AttachCalls(child.pid());
    child.Signal();
    child.Wait();
    sums_.clear();
    AddHeapCounters();
  }
  uint64_t Pages(profd_kind kind) { return sums_[kind].weight / kPage; }
  uint64_t Calls(profd_kind kind) { return sums_[kind].count; }
};

TEST_F(MapKernelTest, CallsAreCountedToTheByte) {
  START_OR_SKIP(kMaps);
  Count([] {
    char* memory = ProfdTestMaps(10 * kPage + 1);
    munmap(memory, 4 * kPage - 1);
    memory = static_cast<char*>(mremap(memory + 4 * kPage, 7 * kPage, 20 * kPage, MREMAP_MAYMOVE));
    mremap(memory, 20 * kPage, 5 * kPage, 0);
    char* heap = static_cast<char*>(sbrk(0));
    brk(heap + 3 * kPage);
    sbrk(6 * kPage);
    brk(heap + kPage);
    madvise(memory, 5 * kPage, MADV_WILLNEED);
    madvise(memory, 5 * kPage, MADV_DONTNEED);
    madvise(memory, 2 * kPage, MADV_FREE);
    munmap(memory, 5 * kPage);
  });
  EXPECT_EQ(sums_[PROFD_KIND_MAPPED].weight, (11 + 13 + 3 + 6) * kPage);
  EXPECT_EQ(Calls(PROFD_KIND_MAPPED), 4U);
  EXPECT_EQ(sums_[PROFD_KIND_UNMAPPED].weight, (4 + 15 + 8 + 5) * kPage);
  EXPECT_EQ(Calls(PROFD_KIND_UNMAPPED), 4U);
  EXPECT_EQ(sums_[PROFD_KIND_RETURNED].weight, (5 + 2) * kPage);
  EXPECT_EQ(Calls(PROFD_KIND_RETURNED), 2U);
  EXPECT_EQ(Loss(PROFD_LOSS_MAP_LOST), 0U);
  EXPECT_EQ(Loss(PROFD_LOSS_MAP_BUSY), 0U);
  const profd_probe_cost cost = kernel_->MapCost();
  EXPECT_EQ(cost.events, 11U);
  EXPECT_EQ(cost.walks, 10U);
  EXPECT_GT(cost.walk_ns, 0U);
}

// Memory that is another's too, or a file's, and what changes nothing.
TEST_F(MapKernelTest, OnlyPrivateMemoryCounts) {
  START_OR_SKIP(kMaps);
  Count([] {
    const UniqueFd file(memfd_create("profd-test", MFD_CLOEXEC));
    if (ftruncate(file.get(), 8 * kPage) != 0) _exit(1);
    void* shared = mmap(nullptr, 8 * kPage, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void* of_file = mmap(nullptr, 8 * kPage, PROT_READ, MAP_PRIVATE, file.get(), 0);
    madvise(of_file, 8 * kPage, MADV_DONTNEED);
    mremap(of_file, 8 * kPage, 4 * kPage, 0);
    of_file = mremap(of_file, 4 * kPage, 6 * kPage, MREMAP_MAYMOVE);
    munmap(of_file, 6 * kPage);
    munmap(of_file, 6 * kPage);  // nothing is there
    munmap(shared, 8 * kPage);
    brk(nullptr);
    mmap(nullptr, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(nullptr, SIZE_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(nullptr, SIZE_MAX, MADV_DONTNEED);
  });
  EXPECT_THAT(sums_, IsEmpty());
  EXPECT_EQ(kernel_->MapCost().events, 12U);
}

TEST_F(MapKernelTest, WhatIsReplacedIsNoMore) {
  START_OR_SKIP(kMaps);
  Count([] {
    const UniqueFd file(memfd_create("profd-test", MFD_CLOEXEC));
    if (ftruncate(file.get(), 8 * kPage) != 0) _exit(1);
    char* memory = ProfdTestMaps(12 * kPage);
    munmap(memory + 8 * kPage, 4 * kPage);
    constexpr int kInPlace = MAP_PRIVATE | MAP_FIXED;
    // The same again, then with two pages behind it, then a file over three of them.
    mmap(memory, 8 * kPage, PROT_READ, kInPlace | MAP_ANONYMOUS, -1, 0);
    mmap(memory, 10 * kPage, PROT_READ, kInPlace | MAP_ANONYMOUS, -1, 0);
    mmap(memory + kPage, 3 * kPage, PROT_READ, kInPlace, file.get(), 0);
    // Parts of another protection are mappings of their own; the file is left out.
    mprotect(memory + 6 * kPage, kPage, PROT_NONE);
    munmap(memory, 10 * kPage);
  });
  EXPECT_EQ(Pages(PROFD_KIND_MAPPED), 12U + 2);
  EXPECT_EQ(Pages(PROFD_KIND_UNMAPPED), 4U + 3 + 7);
}

TEST_F(MapKernelTest, OthersAreNotCounted) {
  START_OR_SKIP(kMaps);
  Count([] { munmap(ProfdTestMaps(kPage), kPage); }, false);
  EXPECT_THAT(sums_, IsEmpty());
  EXPECT_EQ(kernel_->MapCost().events, 0U);
}

TEST_F(MapKernelTest, StackBeginsWithTheFunctionAndItsCaller) {
  START_OR_SKIP(kMaps);
  Count([] { ProfdTestMaps(kPage); });
  Poll();
  ASSERT_THAT(stacks_, SizeIs(1));
  const auto* code = reinterpret_cast<const uint8_t*>(&mmap);
  ExpectBeginsWith(stacks_[0], code, reinterpret_cast<const void*>(&ProfdTestMaps),
                   ChooseProbePoint({code, kProbePointBytes}).skip);
}

// Of calls that are left out those that are counted make up: 5 standard deviations, a false alarm
// in 1.7 million runs.
TEST_F(MapKernelTest, SomeCallsWeighForAll) {
  START_OR_SKIP(kMaps);
  constexpr uint64_t kCalls = 4'000, kOneIn = 4;
  kernel_->SetMapSampling(kOneIn);
  const Child child([](Child& me) {
    char* memory = ProfdTestMaps(kPage);
    me.Wait();
    for (uint64_t i = 0; i < kCalls; ++i) madvise(memory, kPage, MADV_DONTNEED);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  const Probe probe = AttachCalls(child.pid());
  child.Signal();
  child.Wait();
  const auto entries = kernel_->DrainHeapCounters();
  ASSERT_TRUE(entries.ok()) << entries.status();
  // One entry for each stack: while somebody changes its mappings, a stack ends early.
  uint64_t counted = 0;
  for (const auto& [key, value] : *entries) {
    EXPECT_EQ(key.kind, uint8_t{PROFD_KIND_RETURNED});
    EXPECT_EQ(key.arg0, kOneIn);
    EXPECT_EQ(value.weight, value.count * kOneIn * kPage);
    counted += value.count;
  }
  const double expected = static_cast<double>(kCalls) / kOneIn;
  EXPECT_NEAR(static_cast<double>(counted), expected, 5 * std::sqrt(expected * (1 - 1.0 / kOneIn)));
  EXPECT_EQ(kernel_->MapCost().events, kCalls);
  EXPECT_EQ(kernel_->MapCost().walks, counted);
}

TEST_F(MapKernelTest, WithoutTheLayerTheOthersAreThere) {
  START_OR_SKIP(kHeap);
  EXPECT_FALSE(kernel_->has_map_layer());
  const ProbePlace place = {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestMaps)),
                            .cookie = PROFD_PROBE_COOKIE(PROFD_MAP_MMAP, 0, 0)};
  const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(kernel_->AttachMapProbe(self.get(), getpid(), {&place, 1}).ok());
  EXPECT_TRUE(kernel_->DrainHeapCounters().ok());
  EXPECT_EQ(kernel_->MapCost().events, 0U);
}

}  // namespace
}  // namespace profd
