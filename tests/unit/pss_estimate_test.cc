#include "daemon/memory/pss_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/machine.h"

namespace profd {
namespace {

[[maybe_unused]] constexpr uint64_t kPage = 4096;
[[maybe_unused]] constexpr int64_t kNoLimit = 60'000'000'000;

TEST(AccessibleRangesTest, AreWhatAProgramMayTouch) {
  const auto ranges = AccessibleRanges(
      "7f0000000000-7f0000004000 rw-p 00000000 00:00 0 \n"
      "7f0000004000-7f8000000000 ---p 00000000 00:00 0 \n"
      "7f8000000000-7f8000001000 r--s 00000000 fd:01 12   /a file\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n"
      "no mapping\n7f-\n7f-80\n7f-80 \n80-7f rw-p\n7fz-80 rw-p");
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].first, 0x7f0000000U);
  EXPECT_EQ(ranges[0].count, 4U);
  EXPECT_EQ(ranges[1].count, 1U);
}

#if !PROFD_SANITIZED  // a shadow of terabytes hides what is there
// Memory of this process, `sparse` times as large as what it touches, with a child that maps a
// part.
class PssEstimateTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    for (const auto& [at, bytes] : memory_) munmap(at, bytes);
  }

  // Pages of shared memory, runs of 64 of them far apart.
  char* Map(uint64_t pages, uint64_t sparse) {
    const uint64_t bytes = pages * sparse * kPage;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    memory_.emplace_back(at, bytes);
    madvise(at, bytes, MADV_NOHUGEPAGE);
    Touch(static_cast<char*>(at), pages, sparse);
    return static_cast<char*>(at);
  }

  static void Touch(char* at, uint64_t pages, uint64_t sparse) {
    for (uint64_t i = 0; i < pages; ++i) {
      *static_cast<volatile char*>(at + (i / 64 * 64 * sparse + i % 64) * kPage) = 1;
    }
  }

  // A child that has touched the first of these pages.
  void Share(char* at, uint64_t pages, uint64_t sparse) {
    std::array<int, 2> ready;
    ASSERT_EQ(pipe(ready.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Touch(at, pages, sparse);
      if (write(ready[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    }
    children_.push_back(child);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }

  // The estimate, which the kernel's own figure must agree with.
  PssEstimate Check(int64_t most_cpu_ns = kNoLimit) {
    const auto directory = ProcessDirectory::Open("/proc", getpid());
    EXPECT_TRUE(directory.ok()) << directory.status();
    const auto rss = ParseStatus(*directory->Read("status")).rss;
    const auto estimate = EstimatePss(*directory, *rss, most_cpu_ns, &random_);
    EXPECT_TRUE(estimate.ok()) << estimate.status();
    if (!estimate.ok()) return {};
    const auto truth = ParsePss(*directory->Read("smaps_rollup"));
    EXPECT_NEAR(static_cast<double>(estimate->pss), static_cast<double>(*truth),
                static_cast<double>(estimate->error) + 1e6);
    return *estimate;
  }

  std::vector<pid_t> children_;
  std::vector<std::pair<void*, uint64_t>> memory_;
  std::mt19937_64 random_{7};
};

constexpr uint64_t kPages = 64 << 8;  // 64 MiB

TEST_F(PssEstimateTest, WhatIsMappedAloneCountsWhole) {
  Map(4 * kPages, 1);
  const PssEstimate estimate = Check();
  EXPECT_LT(estimate.error, 0.15 * static_cast<double>(estimate.pss));  // its program is shared
}

TEST_F(PssEstimateTest, WhatIsSharedCountsAtMostHalf) {
  char* at = Map(kPages, 1);
  const PssEstimate alone = Check();
  Share(at, kPages / 2, 1);
  const PssEstimate shared = Check();
  EXPECT_NEAR(static_cast<double>(shared.pss + shared.error),
              static_cast<double>(alone.pss) - kPages / 4 * kPage, 4e6);
  // A third one.
  Share(at, kPages / 2, 1);
  Check();
}

// 64 GiB of addresses, of which not all can be looked at.
TEST_F(PssEstimateTest, ASparseMappingIsSampled) {
  constexpr uint64_t kSparse = 1024;
  char* at = Map(kPages, kSparse);
  const PssEstimate alone = Check();
  EXPECT_LT(alone.error, 0.25 * static_cast<double>(alone.pss));
  Share(at, kPages / 2, kSparse);
  const PssEstimate shared = Check();
  EXPECT_LT(shared.pss, alone.pss);
  // In less time the error is larger, and true.
  const PssEstimate hasty = Check(3'000'000);
  EXPECT_GT(hasty.error, shared.error);
}

TEST_F(PssEstimateTest, AProcessThatIsGoneHasNone) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) pause();
  }
  const auto directory = ProcessDirectory::Open("/proc", child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_FALSE(EstimatePss(*directory, 1 << 20, kNoLimit, &random_).ok());
}

#endif  // !PROFD_SANITIZED

}  // namespace
}  // namespace profd
