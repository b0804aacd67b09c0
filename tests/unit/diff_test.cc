#include "client/analysis/diff.h"

#include <cmath>
#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/diff.h"
#include "client/render/diff.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

// A program whose stacks "f0" ... took so long, each with an error of `error_ns`.
Profile Waits(const std::vector<int64_t>& times, int64_t error_ns,
              int64_t window_ns = 60 * kSecond) {
  AnswerWriter answer;
  answer.coverage().set_end_ns(answer.coverage().begin_ns() + window_ns);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", window_ns, 0);
  for (size_t i = 0; i < times.size(); i++) {
    if (times[i] == 0) continue;
    answer.AddSample(thread, profd::v1::REASON_LOCK,
                     {{absl::StrCat("f", i), "a", profd::v1::FRAME_KIND_APPLICATION}}, times[i],
                     error_ns);
  }
  return answer.Build();
}

Diff CompareWhole(const Profile& a, const Profile& b, bool normalized = false) {
  return Compare(MakeView(a, true), MakeView(b, true), normalized);
}

TEST(DiffTest, NothingChangesBetweenEquals) {
  for (const AnswerWriter& answer : {ServerAnswer(), AllocAnswer(), ResidentAnswer()}) {
    const Profile profile = answer.Build();
    for (const bool normalized : {false, true}) {
      const Diff diff = CompareWhole(profile, profile, normalized);
      EXPECT_EQ(diff.Changed(), 0u);
      EXPECT_GE(diff.rows.size(), 3u);
      EXPECT_EQ(diff.LargestGrowth(), 0);
      EXPECT_EQ(diff.total_a.value, diff.total_b.value);
    }
  }
}

// Two windows of a program of 100 stacks, of which one takes twice as long in the second. The
// stated errors are those of the draws: nothing else may be told as changed, in 38 of 40 runs.
TEST(DiffTest, ListsWhatChangedAndNothingElse) {
  constexpr int kRuns = 40, kStacks = 100;
  constexpr double kError = 0.05 * kSecond;
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, kError);
  int right = 0;
  for (int run = 0; run < kRuns; run++) {
    std::vector<int64_t> before, after;
    for (int i = 0; i < kStacks; i++) {
      const double truth = kSecond;
      before.push_back(std::llround(truth + noise(random)));
      after.push_back(std::llround((i == 17 ? 2 : 1) * truth + noise(random)));
    }
    const Diff diff =
        CompareWhole(Waits(before, std::llround(kError)), Waits(after, std::llround(kError)));
    ASSERT_EQ(diff.rows[0].frames, std::vector<std::string>{"f17"});
    right += diff.Changed() == 1 ? 1 : 0;
  }
  EXPECT_GE(right, 38);
}

TEST(DiffTest, RatesAreComparedWhereWindowsDiffer) {
  const Profile minute = Waits({6 * kSecond, 6 * kSecond}, kSecond / 100);
  const Profile half = Waits({3 * kSecond, 3 * kSecond}, kSecond / 100, 30 * kSecond);
  const Diff diff = CompareWhole(minute, half);
  EXPECT_EQ(diff.Changed(), 0u);
  EXPECT_DOUBLE_EQ(diff.total_a.value, 0.2 * kSecond);
  EXPECT_DOUBLE_EQ(diff.total_a.value, diff.total_b.value);
}

TEST(DiffTest, NormalizedComparesShares) {
  const Profile a = Waits({10 * kSecond, 10 * kSecond}, kSecond / 100);
  const Profile twice = Waits({20 * kSecond, 20 * kSecond}, kSecond / 100);
  EXPECT_EQ(CompareWhole(a, twice).Changed(), 2u);
  EXPECT_EQ(CompareWhole(a, twice, true).Changed(), 0u);
  const Profile shifted = Waits({5 * kSecond, 15 * kSecond}, kSecond / 100);
  const Diff diff = CompareWhole(a, shifted, true);
  EXPECT_EQ(diff.Changed(), 2u);
  EXPECT_NEAR(diff.rows[0].Change(), -0.25, 1e-12);
  EXPECT_NEAR(diff.LargestGrowth(), 0.25, 1e-12);
}

TEST(DiffTest, OneSampleIsNoNewStack) {
  // A period of 10 ms: a stack of 20 ms that is there once may have been missed before.
  const Profile a = Waits({10 * kSecond}, kSecond / 100);
  const Profile few = Waits({10 * kSecond, 20'000'000}, 20'000'000);
  EXPECT_EQ(CompareWhole(a, few).Changed(), 0u);
  const Profile many = Waits({10 * kSecond, 5 * kSecond}, kSecond / 100);
  const Diff diff = CompareWhole(a, many);
  ASSERT_EQ(diff.Changed(), 1u);
  EXPECT_EQ(diff.rows[0].frames, std::vector<std::string>{"f1"});
  EXPECT_NEAR(diff.LargestGrowth(), 0.5, 1e-9);
  const Diff back = CompareWhole(many, a);
  EXPECT_EQ(back.Changed(), 1u);
  EXPECT_EQ(back.LargestGrowth(), 0) << "it shrank";
}

TEST(DiffTest, SmallChangesAreNoneHoweverSure) {
  const Profile a = Waits({10 * kSecond, 100 * kSecond}, 1);
  EXPECT_EQ(CompareWhole(a, Waits({10 * kSecond + 500'000'000, 100 * kSecond}, 1)).Changed(), 0u);
  EXPECT_EQ(CompareWhole(a, Waits({11 * kSecond, 100 * kSecond}, 1)).Changed(), 1u);
}

TEST(DiffTest, IsAPageAndAnObject) {
  const Profile a = Waits({10 * kSecond, 1 * kSecond}, kSecond / 100);
  const Profile b = Waits({10 * kSecond, 5 * kSecond}, kSecond / 100);
  const Diff diff = CompareWhole(a, b);
  ExpectGolden(RenderDiffText(a, b, diff, 10, false), "diff.txt");
  ExpectGolden(RenderDiffText(a, a, CompareWhole(a, a), 10, false), "diff-same.txt");
  const auto json = nlohmann::json::parse(RenderDiffJson(a, b, diff));
  EXPECT_EQ(json["format"], "profd-diff");
  EXPECT_EQ(json["unit"], "nanoseconds per second");
  EXPECT_EQ(json["changed"], 1);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["frames"][0], "f1");
  EXPECT_TRUE(json["rows"][0]["changed"]);
  EXPECT_FALSE(json["rows"][1]["changed"]);
}

TEST(DiffSideTest, IsAFileOrAWindow) {
  constexpr int64_t kNow = 2'000'000'000 * kSecond;
  const auto ago = ParseDiffSide("10m..5m", kNow);
  ASSERT_TRUE(ago.ok()) << ago.status();
  EXPECT_EQ(ago->window.begin_ns(), kNow - 600 * kSecond);
  EXPECT_EQ(ago->window.end_ns(), kNow - 300 * kSecond);
  for (const char* text : {"5m", "5m..now"}) {
    const auto until_now = ParseDiffSide(text, kNow);
    ASSERT_TRUE(until_now.ok()) << until_now.status();
    EXPECT_EQ(until_now->window.begin_ns(), kNow - 300 * kSecond);
    EXPECT_EQ(until_now->window.end_ns(), 0) << "the daemon's own now";
  }
  const auto instants = ParseDiffSide("2026-01-31T13:05:00Z..2026-01-31T13:06:00Z", kNow);
  ASSERT_TRUE(instants.ok()) << instants.status();
  EXPECT_EQ(instants->window.end_ns() - instants->window.begin_ns(), 60 * kSecond);
  for (const char* text : {"", "..", "5m..10m", "now", "now..now", "missing.json", "5m..", "..5m",
                           "9000000000000..5m"}) {
    EXPECT_FALSE(ParseDiffSide(text, kNow).ok()) << text;
  }
}

}  // namespace
}  // namespace profctl
