// Bursts of glibc's malloc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/heap/glibc.h"
#include "daemon/target/procfs.h"
#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

// What a child does with glibc's malloc, by its own count.
struct MallocAccount {
  uint64_t allocated = 0, freed = 0;
  uint32_t allocations = 0, frees = 0;

  // The chunk that a request of so many bytes needs; one that is found may be 16 larger.
  void* Got(size_t request, void* memory) {
    allocated += std::max<size_t>(32, (request + 23) & ~size_t{15}) - 8;
    ++allocations;
    return memory;
  }
  void Gives(void* memory) {
    freed += malloc_usable_size(memory);
    ++frees;
  }
};

class MallocKernelTest : public KernelTest {
 protected:
  static constexpr KernelOptions kMalloc =
      WithLayers({&KernelOptions::switch_layer, &KernelOptions::malloc_layer});

  void Attach(int32_t pid) {
    const auto maps = ReadWholeFile("/proc/self/maps", 1 << 24);
    ASSERT_TRUE(maps.ok());
    std::string path;
    for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
      if (absl::StrContains(line, "/libc.so")) path = std::string(line.substr(line.find('/')));
    }
    const UniqueFd library(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto found = FindGlibc(library.get());
    ASSERT_TRUE(found.ok() && *found) << path;
    std::vector<ProbePlace> places;
    for (const GlibcFunction& function : (*found)->functions) {
      const int stepped = function.stepped ? 1 : 0;
      places.push_back(
          {.offset = function.offset, .cookie = PROFD_PROBE_COOKIE(function.place, stepped, 7)});
    }
    auto probe = kernel_->AttachMallocProbe(library.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }

  // Of the only thread; with the weights of its samples, by kind.
  profd_malloc_thread DrainOne() {
    const auto counts = kernel_->DrainMalloc();
    EXPECT_TRUE(counts.ok()) << counts.status();
    if (!counts.ok()) return {};
    weights_.clear();
    for (const auto& [key, value] : counts->samples) {
      EXPECT_EQ(key.arg0, uint64_t{PROFD_BURST_ARGUMENT});
      weights_[key.kind].weight += value.weight;
      weights_[key.kind].count += value.count;
    }
    EXPECT_LE(counts->threads.size(), 1U);
    return counts->threads.empty() ? profd_malloc_thread{} : counts->threads[0].second;
  }

  Shared<MallocAccount> shared_;
  Probe probe_;
  std::map<uint32_t, profd_sample_value> weights_;
};

// So that no compiler knows what is called.
void* (*volatile call_malloc)(size_t) = malloc;
void* (*volatile call_calloc)(size_t, size_t) = calloc;
void* (*volatile call_realloc)(void*, size_t) = realloc;
void (*volatile call_free)(void*) = free;

void UseAllOfMalloc(MallocAccount* account) {
  void* a = account->Got(100, call_malloc(100));
  void* b = account->Got(150, call_calloc(3, 50));
  void* c = account->Got(200, call_realloc(nullptr, 200));
  account->Gives(c);
  c = account->Got(1000, call_realloc(c, 1000));
  void* d = account->Got(200, reallocarray(nullptr, 10, 20));
  void* e = nullptr;
  if (posix_memalign(&e, 16, 48) != 0) abort();
  account->Got(48, e);
  void* f = account->Got(64, aligned_alloc(16, 64));
  call_free(nullptr);
  for (void* memory : {a, b, c, d, e}) {
    account->Gives(memory);
    call_free(memory);
  }
  account->Gives(f);
  if (call_realloc(f, 0) != nullptr) abort();
}

TEST_F(MallocKernelTest, EveryCallOfABurstIsCountedOnce) {
  START_OR_SKIP(kMalloc);
  const Child child([this](Child& me) {
    while (true) {
      me.Wait();
      UseAllOfMalloc(&*shared_);
      me.Signal();
    }
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  const auto round = [&](int64_t begin_ns, int64_t length_ns) {
    *shared_ = {};
    kernel_->SetMallocBurst(begin_ns, length_ns);
    child.Signal();
    child.Wait();
    return DrainOne();
  };
  round(MonotonicNs(), kPatience);  // pages are touched, the library is at home
  profd_malloc_thread sum = round(MonotonicNs(), kPatience);
  EXPECT_EQ(sum.allocated, shared_->allocated);
  EXPECT_EQ(sum.freed, shared_->freed);
  EXPECT_EQ(sum.allocations, shared_->allocations);
  EXPECT_EQ(sum.frees, shared_->frees);
  EXPECT_EQ(sum.watch_id, 7U);
  EXPECT_GT(sum.calls, sum.allocations + sum.frees) << "free(NULL), and two that call another one";
  EXPECT_LT(sum.stepped, sum.calls);
  EXPECT_GT(sum.ns, 0U);
  // Few calls have all their stacks taken.
  EXPECT_EQ(weights_[PROFD_KIND_ALLOC].weight, sum.allocated);
  EXPECT_EQ(weights_[PROFD_KIND_ALLOC].count, sum.allocations);
  EXPECT_EQ(weights_[PROFD_KIND_FREE].weight, sum.freed);

  // Before a burst and after it nothing counts, but costs.
  const profd_malloc_cost cost = kernel_->MallocCost();
  sum = round(MonotonicNs() + kPatience, kPatience);
  EXPECT_EQ(sum.calls, 0U);
  sum = round(MonotonicNs() - 2 * kMillisecond, kMillisecond);
  EXPECT_EQ(sum.calls, 0U);
  EXPECT_GT(kernel_->MallocCost().calls, cost.calls + 20);
  EXPECT_EQ(kernel_->MallocCost().ns, cost.ns);
  // No probe, no call.
  probe_ = {};
  EXPECT_EQ(round(MonotonicNs(), kPatience).calls, 0U);
  EXPECT_EQ(Loss(PROFD_LOSS_MALLOC_FULL), 0U);
}

// What is larger than 16 bytes' alignment is made of a larger chunk, of which a part is given back.
TEST_F(MallocKernelTest, AlignedMemoryIsCountedAsItWasAskedFor) {
  START_OR_SKIP(kMalloc);
  const Child child([](Child& me) {
    me.Wait();
    void* a = aligned_alloc(64, 640);  // a chunk of 656 bytes
    void* b = nullptr;
    if (posix_memalign(&b, 256, 500) != 0) abort();  // of 512
    asm volatile("" ::"r"(a), "r"(b));
    me.Signal();
    me.Wait();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  kernel_->SetMallocBurst(MonotonicNs(), kPatience);
  child.Signal();
  child.Wait();
  const profd_malloc_thread sum = DrainOne();
  EXPECT_EQ(sum.allocated, 648U + 504U);
  EXPECT_EQ(sum.allocations, 2U);
}

// Of many calls the stacks of a sample are taken, which weigh for all of them.
TEST_F(MallocKernelTest, SampledStacksWeighForAll) {
  constexpr uint32_t kCalls = 30'000;
  START_OR_SKIP(kMalloc);
  const Child child([this](Child& me) {
    me.Wait();
    for (uint32_t i = 0; i < kCalls; ++i) {
      const size_t size = i % 10 == 0 ? 5000 : 16 + i * 7 % 300;
      call_free(shared_->Got(size, call_malloc(size)));
    }
    me.Signal();
    me.Wait();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  kernel_->SetMallocBurst(MonotonicNs(), kPatience);
  child.Signal();
  child.Wait();
  const profd_malloc_thread sum = DrainOne();
  EXPECT_EQ(sum.allocations, kCalls);
  EXPECT_EQ(sum.allocated, shared_->allocated);
  const profd_sample_value& sampled = weights_[PROFD_KIND_ALLOC];
  EXPECT_LT(sampled.count, kCalls / 10);
  EXPECT_GT(sampled.count, kCalls / 40);
  // A call is sampled with p = size / threshold, the threshold is 32 mean sizes: the estimate has a
  // standard deviation of 2.9 %. 5 of them are a false alarm in 1.7 million runs.
  EXPECT_NEAR(static_cast<double>(sampled.weight) / static_cast<double>(sum.allocated), 1, 0.15);
}

}  // namespace
}  // namespace profd
