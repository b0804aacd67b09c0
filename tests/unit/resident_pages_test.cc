// Pages of our own: what is resident is real.
#include "daemon/source/resident_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace profd {
namespace {

constexpr uint64_t kSeed = 12'345;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kProcess = 7;
constexpr StackId kStack{3};

class ResidentPagesTest : public ::testing::Test {
 protected:
  ~ResidentPagesTest() override {
    if (memory_ != nullptr) munmap(memory_, pages_ * kPage);
  }

  // Touches pages of our own, and tells of those in the sample as the kernel side would.
  void Touch(uint64_t pages, uint32_t one_in) {
    if (memory_ == nullptr) {
      pages_ = pages;
      memory_ = static_cast<char*>(
          mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      ASSERT_NE(memory_, MAP_FAILED);
      madvise(memory_, pages * kPage, MADV_NOHUGEPAGE);
    }
    for (uint64_t i = 0; i < pages; ++i) {
      memory_[i * kPage] = 1;
      Tell(reinterpret_cast<uintptr_t>(memory_) + i * kPage, one_in);
    }
  }
  void Tell(uint64_t address, uint32_t one_in, int32_t pid = getpid(), bool unsure = false,
            StackId stack = kStack) {
    if (profd_page_hash(address / kPage, kSeed) >= profd_page_threshold(one_in)) return;
    resident_.OnTouched({.type = PROFD_RECORD_PAGE,
                         .pid = pid,
                         .process_id = kProcess,
                         .thread_id = kProcess,
                         .address = address,
                         .stack = static_cast<uint64_t>(stack),
                         .size = one_in * kPage,
                         .unsure = unsure ? 1U : 0U,
                         .pad = 0});
  }
  // What is resident by what was told so far.
  double Bytes() {
    ProfileDelta delta;
    resident_.Finish(delta);
    for (const Sample& change : delta.samples) {
      EXPECT_EQ(change.key.kind, Kind::kResident);
      bytes_ += change.weight;
    }
    return static_cast<double>(bytes_);
  }
  // Standard error of a total of `pages`, of which one in so many is sampled.
  static double Error(double pages, uint32_t one_in) {
    return std::sqrt(pages / one_in) * one_in * kPage;
  }

  CpuUse cpu_use_;
  // It looks when a test says so, and by itself only at pages that may be of files.
  ResidentPages resident_{kSeed, &cpu_use_, 3600 * int64_t{1'000'000'000}};
  char* memory_ = nullptr;
  uint64_t pages_ = 0;
  int64_t bytes_ = 0;
};

TEST_F(ResidentPagesTest, GoesDownWhenPagesAreGivenBack) {
  constexpr uint64_t kPages = 20'000;
  resident_.SetOneIn(4);
  Touch(kPages, 4);
  resident_.Look();
  EXPECT_NEAR(Bytes(), kPages * kPage, 4 * Error(kPages, 4));
  ASSERT_EQ(madvise(memory_, kPages / 2 * kPage, MADV_DONTNEED), 0);
  resident_.Look();
  EXPECT_NEAR(Bytes(), kPages / 2 * kPage, 4 * Error(kPages / 2, 4));
  ASSERT_EQ(madvise(memory_, kPages * kPage, MADV_DONTNEED), 0);
  resident_.Look();
  EXPECT_EQ(Bytes(), 0);
  EXPECT_EQ(resident_.note(), "");
}

// Nothing of a target is read in a pause.
TEST_F(ResidentPagesTest, PausedItChecksNothing) {
  constexpr size_t kPages = 10;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(kPage, kPages * kPage)), std::free);
  resident_.SetOn(false);
  for (size_t i = 0; i < kPages; ++i) {
    memory.get()[i * kPage] = 1;
    Tell(reinterpret_cast<uintptr_t>(memory.get()) + i * kPage, 1, getpid(), true);
  }
  absl::SleepFor(absl::Milliseconds(300));  // three times what a check takes
  EXPECT_EQ(resident_.pages(), 0U);
  resident_.SetOn(true);
  for (int i = 0; i < 600 && resident_.pages() == 0; ++i) absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(resident_.pages(), kPages);
}

// Of files and others, as the kernel side tells them when it does not know.
TEST_F(ResidentPagesTest, UnsurePagesCountOnceTheyAreKnown) {
  constexpr uint64_t kPages = 100;
  const int file = memfd_create("profd-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, kPages * kPage), 0);
  auto* shared = static_cast<char*>(
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(shared, MAP_FAILED);
  Touch(kPages, 1);
  const auto at = [this](uint64_t page) {
    return reinterpret_cast<uintptr_t>(memory_) + page * kPage;
  };
  // The first half is given back, and touched again while nothing is known of it; a quarter of all
  // once more.
  ASSERT_EQ(madvise(memory_, kPages / 2 * kPage, MADV_DONTNEED), 0);
  for (uint64_t i = 0; i < kPages; ++i) {
    shared[i * kPage] = 1;
    Tell(reinterpret_cast<uintptr_t>(shared) + i * kPage, 1, getpid(), true);
  }
  constexpr auto kAgain = static_cast<StackId>(99), kOnceMore = static_cast<StackId>(100);
  for (uint64_t i = 0; i < kPages / 2; ++i) {
    memory_[i * kPage] = 1;
    Tell(at(i), 1, getpid(), true, kAgain);
  }
  for (uint64_t i = 0; i < kPages / 4; ++i) Tell(at(i), 1, getpid(), false, kOnceMore);
  EXPECT_EQ(resident_.pages(), kPages);
  std::map<StackId, int64_t> bytes;
  // On a busy machine some are known earlier than others.
  for (int i = 0; i < 1'000 && bytes[kAgain] < static_cast<int64_t>(kPages / 4 * kPage); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    ProfileDelta delta;
    resident_.Finish(delta);
    for (const Sample& change : delta.samples) bytes[change.key.stack] += change.weight;
  }
  EXPECT_EQ(resident_.pages(), kPages);
  EXPECT_EQ(bytes[kStack], kPages / 2 * kPage);
  EXPECT_EQ(bytes[kAgain], kPages / 4 * kPage);
  EXPECT_EQ(bytes[kOnceMore], kPages / 4 * kPage);
  munmap(shared, kPages * kPage);
  close(file);
}

// A page that is given back and touched again between two looks is the same page of the sample, not
// one more: however often it happens.
TEST_F(ResidentPagesTest, TouchedAgainIsNotCountedTwice) {
  constexpr uint64_t kPages = 10'000;
  resident_.SetOneIn(8);
  for (int round = 0; round < 20; ++round) {
    Touch(kPages, 8);
    ASSERT_EQ(madvise(memory_, kPages * kPage, MADV_DONTNEED), 0);
  }
  Touch(kPages, 8);
  resident_.Look();
  EXPECT_NEAR(Bytes(), kPages * kPage, 4 * Error(kPages, 8));
}

TEST_F(ResidentPagesTest, CoarserSampleMeansTheSame) {
  constexpr uint64_t kPages = 20'000;
  resident_.SetOneIn(4);
  Touch(kPages, 4);
  const size_t before = resident_.pages();
  resident_.SetOneIn(16);
  EXPECT_LT(resident_.pages(), before / 3);
  EXPECT_NEAR(Bytes(), kPages * kPage, 4 * Error(kPages, 16));
  // Told before the kernel side knew: only those of the coarser sample count.
  Touch(kPages, 4);
  EXPECT_NEAR(Bytes(), kPages * kPage, 4 * Error(kPages, 16));
  // Finer again: old pages stand for what they stood for.
  resident_.SetOneIn(4);
  EXPECT_NEAR(Bytes(), kPages * kPage, 4 * Error(kPages, 16));
}

TEST_F(ResidentPagesTest, SampleGetsCoarserWhenItsPlaceIsFull) {
  resident_.SetOneIn(2);
  uint64_t told = 0;
  for (uint64_t page = 1; resident_.LeastOneIn() == 1; ++page) {
    Tell(page * kPage, 2);
    ASSERT_LT(++told, 4 * ResidentPages::kMaxPages);
  }
  EXPECT_EQ(resident_.LeastOneIn(), 4U);
  EXPECT_LE(resident_.pages(), ResidentPages::kMaxPages);
  const auto pages = static_cast<double>(told);
  EXPECT_NEAR(Bytes(), pages * kPage, 4 * Error(pages, 4));
}

TEST_F(ResidentPagesTest, ProcessThatIsGoneHasNoPages) {
  resident_.SetOneIn(2);
  Touch(1'000, 2);
  EXPECT_GT(Bytes(), 0);
  // One that a drain does not know yet is not gone.
  resident_.KeepOnly({});
  EXPECT_GT(Bytes(), 0);
  resident_.KeepOnly({getpid()});
  resident_.KeepOnly({});
  EXPECT_GT(Bytes(), 0);
  resident_.KeepOnly({});
  EXPECT_EQ(Bytes(), 0);
  Touch(1'000, 2);
  EXPECT_GT(Bytes(), 0);
  resident_.OnExec(getpid() + 1);
  EXPECT_GT(Bytes(), 0);
  resident_.OnExec(getpid());
  EXPECT_EQ(Bytes(), 0);
}

TEST_F(ResidentPagesTest, RecordsThatSayNothingAreLeftOut) {
  profd_page_record record{};
  resident_.OnTouched(record);
  record.size = kPage;
  record.process_id = 1;  // not visible here
  resident_.OnTouched(record);
  record.process_id = 0;
  record.pid = getpid();
  resident_.OnTouched(record);
  EXPECT_EQ(resident_.pages(), 0U);
  // A process that cannot be looked at keeps what it has until a drain misses it.
  Tell(kPage, 1, 0x7fffffff);
  resident_.Look();
  EXPECT_EQ(resident_.pages(), 1U);
}

TEST(PageHashTest, OneInSoMany) {
  for (const uint32_t one_in : {1U, 2U, 17U, 257U}) {
    constexpr int kPages = 200'000;
    int sampled = 0;
    for (uint64_t page = 0; page < kPages; ++page) {
      sampled += profd_page_hash(page, kSeed) < profd_page_threshold(one_in) ? 1 : 0;
    }
    const double expected = static_cast<double>(kPages) / one_in;
    EXPECT_NEAR(sampled, expected, 4 * std::sqrt(expected));
  }
}

TEST(PageHashTest, CoarserSamplesArePartOfFiner) {
  for (uint64_t page = 0; page < 100'000; ++page) {
    const uint32_t hash = profd_page_hash(page, kSeed);
    if (hash < profd_page_threshold(67)) {
      EXPECT_LT(hash, profd_page_threshold(17));
    }
  }
}

}  // namespace
}  // namespace profd
