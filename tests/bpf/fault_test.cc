// Page faults of the sample.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "daemon/base/fd.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/support/any_record.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Which pages of the sample a child touches, by their addresses, and how often.
class FaultKernelTest : public KernelTest {
 protected:
  static constexpr KernelOptions kFaults = WithLayers({&KernelOptions::fault_layer});
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kPages = 4096;

  static char* Map() {
    void* memory =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, kPages * kPage, MADV_NOHUGEPAGE);
    return static_cast<char*>(memory);
  }
  // Touches memory as often as it is told to, and gives it back each time.
  static void TouchAsTold(Child& me, char* memory) {
    while (true) {
      me.Wait();
      for (uint64_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * kPage] = 1;
      me.Signal();
      me.Wait();
      madvise(memory, kPages * kPage, MADV_DONTNEED);
      me.Signal();
    }
  }
  // The same in a system call: the kernel touches the pages.
  static void ReadAsTold(Child& me, char* memory) {
    const UniqueFd zeros(open("/dev/zero", O_RDONLY | O_CLOEXEC));
    while (true) {
      me.Wait();
      (void)!read(zeros.get(), memory, kPages * kPage);
      me.Signal();
      me.Wait();
      madvise(memory, kPages * kPage, MADV_DONTNEED);
      me.Signal();
    }
  }
  // One round of it.
  std::map<uint64_t, int> Round(const Child& child, const char* memory) {
    touched_.clear();
    child.Signal();
    child.Wait();
    EXPECT_TRUE(kernel_
                    ->PollEvents([&](std::span<const uint8_t> bytes) {
                      const auto record = DecodeAny(bytes);
                      if (!record.ok()) return;
                      if (const auto* page = std::get_if<profd_page_record>(&*record)) {
                        const uint64_t offset = page->address - reinterpret_cast<uintptr_t>(memory);
                        if (offset >= kPages * kPage) return;
                        EXPECT_EQ(page->pid, child.pid());
                        EXPECT_EQ(page->process_id, page->thread_id);
                        EXPECT_NE(page->stack, 0U);
                        EXPECT_EQ(offset % kPage, 0U);
                        sizes_.insert(page->size);
                        unsure_ += page->unsure;
                        ++touched_[offset / kPage];
                      } else if (const auto* stack = std::get_if<StackTrace>(&*record)) {
                        stacks_.insert(stack->id);
                      }
                    })
                    .ok());
    child.Signal();
    child.Wait();
    return touched_;
  }

  std::map<uint64_t, int> touched_;
  std::set<uint64_t> sizes_;
  int64_t unsure_ = 0;  // pages that may be of a file
  std::set<StackId> stacks_;
};

TEST_F(FaultKernelTest, PagesOfTheSampleAreToldEachTimeTheyAreTouched) {
  START_OR_SKIP(kFaults);
  char* memory = Map();
  const Child child([memory](Child& me) { TouchAsTold(me, memory); });
  Mark(child);
  // Off: nothing is told.
  EXPECT_THAT(Round(child, memory), IsEmpty());
  EXPECT_EQ(kernel_->FaultCost().faults, 0U);
  // All pages.
  ASSERT_TRUE(kernel_->SetFaults(1).ok());
  const uint64_t told = Round(child, memory).size();
  EXPECT_EQ(told, kPages);
  EXPECT_THAT(sizes_, ElementsAre(kPage));
  EXPECT_THAT(stacks_, Not(IsEmpty()));
  const profd_fault_cost cost = kernel_->FaultCost();
  EXPECT_GE(cost.faults, kPages);
  EXPECT_GE(cost.walks, kPages);
  EXPECT_GT(cost.walk_ns, 0U);
  // One in four, and the same ones each time.
  sizes_.clear();
  ASSERT_TRUE(kernel_->SetFaults(4).ok());
  const std::map<uint64_t, int> sampled = Round(child, memory);
  // 5 standard deviations: a false alarm in 1.7 million runs.
  EXPECT_NEAR(static_cast<double>(sampled.size()), kPages / 4.0,
              5 * std::sqrt(kPages * 0.25 * 0.75));
  EXPECT_THAT(sizes_, ElementsAre(4 * kPage));
  const std::map<uint64_t, int> either = Round(child, memory);
  EXPECT_EQ(either, sampled);
  for (const auto& [page, times] : sampled) {
    EXPECT_EQ(times, 1);
    const uint64_t number = reinterpret_cast<uintptr_t>(memory) / kPage + page;
    EXPECT_LT(profd_page_hash(number, kernel_->fault_seed()), profd_page_threshold(4));
  }
  ASSERT_TRUE(kernel_->SetFaults(0).ok());
  EXPECT_FALSE(kernel_->faults_on());
  EXPECT_THAT(Round(child, memory), IsEmpty());
  EXPECT_EQ(Loss(PROFD_LOSS_FAULT_BUSY), 0U);
}

TEST_F(FaultKernelTest, PagesThatSystemCallsTouchAreTold) {
  START_OR_SKIP(kFaults);
  char* memory = Map();
  const Child child([memory](Child& me) { ReadAsTold(me, memory); });
  Mark(child);
  ASSERT_TRUE(kernel_->SetFaults(1).ok());
  EXPECT_EQ(Round(child, memory).size(), kPages);
}

// Where the map is locked most of the time, too.
TEST_F(FaultKernelTest, PagesAreToldBesideAThreadThatMapsAllTheTime) {
  START_OR_SKIP(kFaults);
  char* memory = Map();
  const Child child([memory](Child& me) {
    std::thread([] {
      while (true) {
        void* other = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(other, kPage);
      }
    }).detach();
    TouchAsTold(me, memory);
  });
  Mark(child);
  ASSERT_TRUE(kernel_->SetFaults(1).ok());
  // On a busy machine the two may not run at the same time in the first rounds.
  for (int round = 0; round < 3 || (unsure_ == 0 && round < 300); ++round) {
    ASSERT_EQ(Round(child, memory).size(), kPages);
  }
  EXPECT_EQ(Loss(PROFD_LOSS_FAULT_BUSY), 0U);
  EXPECT_GT(unsure_, 0);
  EXPECT_GE(kernel_->FaultCost().unsure, static_cast<uint64_t>(unsure_));
}

// Others fault, too: they are none of ours. Nor are pages of files.
TEST_F(FaultKernelTest, OnlyAnonymousPagesOfTargetsAreTold) {
  START_OR_SKIP(kFaults);
  ASSERT_TRUE(kernel_->SetFaults(1).ok());
  char* memory = Map();
  for (uint64_t i = 0; i < kPages; ++i) memory[i * kPage] = 1;
  const UniqueFd file(memfd_create("profd-test", MFD_CLOEXEC));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(ftruncate(file.get(), kPages * kPage), 0);
  char* shared = static_cast<char*>(
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_NE(shared, MAP_FAILED);
  const Child child([shared](Child& me) { TouchAsTold(me, shared); });
  Mark(child);
  // But for those at which the kernel could not be asked what they are of, on this CPU at this
  // moment.
  const size_t told = Round(child, shared).size();
  EXPECT_LE(told, kPages / 50);
  EXPECT_EQ(unsure_, static_cast<int64_t>(told));
  EXPECT_GE(kernel_->FaultCost().faults, kPages) << "the child's, all the same";
  EXPECT_LT(kernel_->FaultCost().faults, 2 * kPages) << "not ours";
}

}  // namespace
}  // namespace profd
