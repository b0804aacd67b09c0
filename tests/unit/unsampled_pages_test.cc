#include "daemon/source/unsampled_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMiB = 1 << 20;
constexpr int32_t kPid = 70;

// Process 70 with two threads, in a /proc of its own.
class UnsampledPagesTest : public ::testing::Test {
 protected:
  UnsampledPagesTest() { Holds(100 * kMiB); }
  ~UnsampledPagesTest() override { std::filesystem::remove_all(proc_); }

  void Holds(int64_t anon) {
    std::filesystem::create_directories(proc_ + "/70");
    std::ofstream(proc_ + "/70/status") << "VmRSS:\t1 kB\nRssAnon:\t" << anon / 1024 << " kB\n";
  }
  int64_t Sampled(int32_t /*pid*/) const { return sampled_; }
  void Begin() {
    pages_.Begin({kPid}, [this](int32_t pid) { return Sampled(pid); });
  }
  // What a drain adds to the level, with these faults of the threads 1 and 2.
  int64_t Drain(int64_t first, int64_t second) {
    now_ns_ += 6 * kSecond;
    ProfileDelta delta;
    delta.books_on = books_;
    for (const auto& [id, faults] : {std::pair{1, first}, std::pair{2, second}}) {
      ThreadLedger& ledger = delta.ledgers.emplace_back();
      ledger.thread = ThreadId{static_cast<uint64_t>(id)};
      ledger.delta.minor_faults = faults;
    }
    pages_.Drain(
        now_ns_, [](ThreadId /*thread*/) { return kPid; },
        [this](int32_t pid) { return Sampled(pid); }, delta);
    int64_t bytes = 0;
    for (const Sample& sample : delta.samples) {
      EXPECT_EQ(sample.key.kind, Kind::kResident);
      EXPECT_EQ(sample.key.stack, StackId{});
      thread_ = sample.key.thread;
      bytes += sample.weight;
    }
    return bytes;
  }

  const std::string proc_ = ::testing::TempDir() + "/unsampled" + std::to_string(getpid());
  UnsampledPages pages_{proc_};
  bool books_ = true;
  int64_t now_ns_ = 0;
  int64_t sampled_ = 60 * kMiB;
  ThreadId thread_{};
};

TEST_F(UnsampledPagesTest, WhileThePagesAreToldOfThereIsNothing) {
  Holds(500 * kMiB);
  EXPECT_EQ(Drain(100'000, 0), 0);
}

TEST_F(UnsampledPagesTest, GrowthOfTheMeantimeIsEnteredForWhoTouchedMost) {
  Begin();
  Holds(130 * kMiB);
  EXPECT_EQ(Drain(1'000, 5'000), 30 * kMiB) << "100 MiB were there before";
  EXPECT_EQ(thread_, ThreadId{2});
  Holds(150 * kMiB);
  EXPECT_EQ(Drain(5'000, 0), 20 * kMiB);
  EXPECT_EQ(thread_, ThreadId{2}) << "one thread stands for all";
}

TEST_F(UnsampledPagesTest, ItStaysWhenPagesAreToldOfAgainAndGoesWithTheMemory) {
  Begin();
  Holds(200 * kMiB);
  EXPECT_EQ(Drain(25'000, 0), 100 * kMiB);
  pages_.End();
  sampled_ = 90 * kMiB;
  Holds(230 * kMiB);
  EXPECT_EQ(Drain(7'000, 0), 0);
  sampled_ = 60 * kMiB;
  Holds(110 * kMiB);
  EXPECT_EQ(Drain(0, 0), -50 * kMiB) << "no more than the process holds beside the sample";
}

TEST_F(UnsampledPagesTest, ASecondTimeAddsToTheFirst) {
  Begin();
  Holds(200 * kMiB);
  EXPECT_EQ(Drain(25'000, 0), 100 * kMiB);
  pages_.End();
  sampled_ = 160 * kMiB;
  Holds(300 * kMiB);
  EXPECT_EQ(Drain(25'000, 0), 0);
  Begin();
  Holds(310 * kMiB);
  EXPECT_EQ(Drain(2'500, 0), 10 * kMiB);
}

TEST_F(UnsampledPagesTest, ANewProcessHasWhatItTouched) {
  pages_.Begin({}, [this](int32_t pid) { return Sampled(pid); });
  EXPECT_EQ(Drain(2'560, 0), 10 * kMiB) << "the other 30 MiB are its parent's";
}

TEST_F(UnsampledPagesTest, WithoutTheBooksEveryProcessIsLookedAt) {
  books_ = false;
  Begin();
  Holds(130 * kMiB);
  EXPECT_EQ(Drain(0, 0), 30 * kMiB);
}

TEST_F(UnsampledPagesTest, WhatEndsOrExecutesIsForgotten) {
  Begin();
  Holds(130 * kMiB);
  EXPECT_EQ(Drain(7'000, 0), 30 * kMiB);
  pages_.Forget(kPid);
  EXPECT_EQ(Drain(0, 0), -30 * kMiB);
  Holds(200 * kMiB);
  EXPECT_GT(Drain(7'000, 0), 0);
  pages_.KeepOnly({});
  EXPECT_LT(Drain(0, 0), 0);
}

TEST_F(UnsampledPagesTest, AProcessThatIsGoneIsNoError) {
  Begin();
  std::filesystem::remove_all(proc_);
  EXPECT_EQ(Drain(7'000, 0), 0);
}

}  // namespace
}  // namespace profd
