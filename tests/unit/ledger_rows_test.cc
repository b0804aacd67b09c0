// `profctl threads`: rows, their order, and the table.
#include "client/analysis/ledger_rows.h"

#include <string>
#include <vector>

#include "client/render/threads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

TEST(LedgerRowsTest, MatchesGoldens) {
  AnswerWriter writer = ServerAnswer();
  profd::v1::Thread& busy = *writer.message().mutable_threads(0);
  busy.set_voluntary_switches(123'456);
  busy.set_involuntary_switches(7);
  busy.set_minor_faults(60);
  busy.set_major_faults(30);
  const Profile waits = writer.Build();
  Profile allocations = waits;
  allocations.threads[1].heap.emplace().set_bytes(60ll << 20);
  ExpectGolden(
      RenderThreadsText(waits, LedgerRows(waits, &allocations, false, ThreadSort::kCpu), false),
      "threads.txt");
  ExpectGolden(
      RenderThreadsText(waits, LedgerRows(waits, nullptr, true, ThreadSort::kBlocked), false),
      "threads-by-name.txt");
  ExpectGolden(RenderThreadsJson(waits, LedgerRows(waits, nullptr, true, ThreadSort::kName)),
               "threads.json");
  const Profile shed = ShedAnswer().Build();
  ExpectGolden(RenderThreadsText(shed, LedgerRows(shed, nullptr, true, ThreadSort::kWall), false),
               "threads-shed.txt");
}

TEST(LedgerRowsTest, RowsHoldTheWholeLedger) {
  const Profile waits = ServerAnswer().Build();
  int64_t wall = 0, off = 0;
  for (const Thread& thread : waits.threads) {
    wall += thread.ledger.wall_ns();
    for (const auto& total : thread.ledger.off()) off += total.time_ns();
  }
  for (const bool by_name : {false, true}) {
    int64_t row_wall = 0, row_off = 0;
    uint32_t threads = 0;
    for (const LedgerRow& row : LedgerRows(waits, nullptr, by_name, ThreadSort::kName)) {
      row_wall += row.wall_ns;
      row_off += row.RunQueue() + row.Blocked();
      threads += row.threads;
    }
    EXPECT_EQ(row_wall, wall);
    EXPECT_EQ(row_off, off);
    EXPECT_EQ(threads, waits.threads.size());
  }
}

TEST(LedgerRowsTest, EveryOrderPutsTheLargestFirst) {
  AnswerWriter writer;
  const uint32_t a = writer.AddThread(1, 1, "p", "a", 100, 90);
  const uint32_t b = writer.AddThread(1, 2, "p", "b", 110, 10);
  const uint32_t c = writer.AddThread(1, 3, "p", "c", 120, 20);
  writer.AddSample(a, profd::v1::REASON_DISK, {}, 10, 0);
  writer.AddSample(b, profd::v1::REASON_DISK, {}, 100, 0);
  writer.AddSample(c, profd::v1::REASON_DISK, {}, 40, 0);
  writer.AddSample(c, profd::v1::REASON_RUNQUEUE, {}, 60, 0);
  writer.message().mutable_threads(0)->set_voluntary_switches(7);
  writer.message().mutable_threads(1)->set_involuntary_switches(8);
  Profile waits = writer.Build();
  Profile allocations = waits;
  allocations.threads[0].heap.emplace().set_bytes(5);
  allocations.threads[2].heap.emplace().set_bytes(6);
  const auto order = [&](ThreadSort sort) {
    std::string names;
    for (const LedgerRow& row : LedgerRows(waits, &allocations, false, sort)) names += row.name;
    return names;
  };
  EXPECT_EQ(order(ThreadSort::kWall), "cba");
  EXPECT_EQ(order(ThreadSort::kCpu), "acb");
  EXPECT_EQ(order(ThreadSort::kRunQueue), "cab");
  EXPECT_EQ(order(ThreadSort::kBlocked), "bca");
  EXPECT_EQ(order(ThreadSort::kSwitches), "bac");
  EXPECT_EQ(order(ThreadSort::kAlloc), "cab") << "what is not known comes last";
  EXPECT_EQ(order(ThreadSort::kName), "abc");
  for (const ThreadSortInfo& info : AllThreadSorts()) {
    EXPECT_EQ(ParseThreadSort(info.name), info.sort);
  }
}

void AddHistogram(AnswerWriter& writer, int thread, const std::vector<uint64_t>& buckets,
                  int64_t max_ns, bool rounded) {
  profd::v1::ReasonTotal& off = *writer.message().mutable_threads(thread)->mutable_off(0);
  off.mutable_durations()->Add(buckets.begin(), buckets.end());
  off.set_max_ns(max_ns);
  off.set_max_rounded(rounded);
}

// Two histograms of a name are one.
TEST(LedgerRowsTest, DurationsOfAGroupAddUp) {
  AnswerWriter writer;
  writer.AddSample(writer.AddThread(1, 1, "p", "w-1", 100, 0), profd::v1::REASON_LOCK, {}, 9, 0);
  writer.AddSample(writer.AddThread(1, 2, "p", "w-2", 100, 0), profd::v1::REASON_LOCK, {}, 9, 0);
  AddHistogram(writer, 0, {0, 98}, 1'100, false);
  AddHistogram(writer, 1, {0, 0, 0, 0, 0, 2}, 5'000, false);
  const Profile waits = writer.Build();
  const std::vector<LedgerRow> rows = LedgerRows(waits, nullptr, true, ThreadSort::kCpu);
  ASSERT_EQ(rows.size(), 1U);
  const auto json =
      nlohmann::json::parse(RenderThreadsJson(waits, rows))["threads"][0]["off"]["lock"];
  EXPECT_EQ(json["measured"], 100);
  EXPECT_EQ(json["p50_ns"], 1'228);
  EXPECT_EQ(json["p99_ns"], 4'503);
  EXPECT_EQ(json["max_ns"], 5'000);
  EXPECT_EQ(json["max_rounded"], false);
  const std::string text = RenderThreadsText(waits, rows, false);
  EXPECT_THAT(text, ::testing::ContainsRegex("p50 +p99 +max +queue p99"));
  EXPECT_THAT(text, ::testing::ContainsRegex("1.23 us +4.50 us +5.00 us +-"));
}

TEST(LedgerRowsTest, ALongestWaitThatIsNotKnownHasABound) {
  AnswerWriter writer;
  writer.AddSample(writer.AddThread(1, 1, "p", "w", 100, 0), profd::v1::REASON_LOCK, {}, 9, 0);
  AddHistogram(writer, 0, {0, 98}, 1'536, true);
  const Profile waits = writer.Build();
  EXPECT_THAT(RenderThreadsText(waits, LedgerRows(waits, nullptr, false, ThreadSort::kCpu), false),
              ::testing::HasSubstr(" <1.54 us "));
}

TEST(LedgerRowsTest, AGroupHasExitedOnceAllOfItHave) {
  AnswerWriter writer;
  writer.AddThread(1, 1, "p", "w-1", 100, 0);
  writer.AddThread(1, 2, "p", "w-2", 100, 0);
  writer.message().mutable_threads(0)->set_exited(true);
  EXPECT_FALSE(LedgerRows(writer.Build(), nullptr, true, ThreadSort::kCpu)[0].exited);
  writer.message().mutable_threads(1)->set_exited(true);
  EXPECT_TRUE(LedgerRows(writer.Build(), nullptr, true, ThreadSort::kCpu)[0].exited);
  writer.message().mutable_threads(0)->set_exited(false);
  EXPECT_FALSE(LedgerRows(writer.Build(), nullptr, true, ThreadSort::kCpu)[0].exited);
}

TEST(LedgerRowsTest, AnEmptyWindowHasNoTable) {
  const Profile waits = AnswerWriter().Build();
  const std::string page =
      RenderThreadsText(waits, LedgerRows(waits, nullptr, false, ThreadSort::kCpu), false);
  EXPECT_THAT(page, ::testing::HasSubstr("No thread matches in this window."));
}

}  // namespace
}  // namespace profctl
