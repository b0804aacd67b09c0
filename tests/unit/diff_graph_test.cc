// The differential flame graph: what has a colour, and what has a width.
#include "client/render/diff_graph.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/analysis/diff.h"
#include "client/render/diff_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;
constexpr auto kApp = profd::v1::FRAME_KIND_APPLICATION;

// Lock waits of one thread: the function that waits, called by `caller`, and how long.
struct Wait {
  std::string function, caller;
  int64_t time_ns;
};

Profile Waits(const std::vector<Wait>& waits, int64_t error_ns) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(4242, 4250, "reth", "storage", 600 * kSecond, 0);
  for (const Wait& wait : waits) {
    answer.AddSample(thread, profd::v1::REASON_LOCK,
                     {{"__x64_sys_futex", "[kernel]", profd::v1::FRAME_KIND_KERNEL},
                      {wait.function, "reth", kApp},
                      {wait.caller, "reth", kApp}},
                     wait.time_ns, error_ns);
  }
  return answer.Build();
}

// Two profiles and what changed between them.
struct Pair {
  Pair(Profile before, Profile after, bool normalized = false)
      : a(std::move(before)),
        b(std::move(after)),
        diff(Compare(MakeView(a, true), MakeView(b, true), normalized)) {}
  Pair(const Pair&) = delete;

  std::string Draw(WidthOf width, const FlameGraphOptions& options = {}) const {
    return RenderDiffGraph(a, b, diff, width, options);
  }

  const Profile a, b;
  const Diff diff;
};

// The first node of this name: its width, and how it changed.
struct Found {
  FlameNode node;
  NodeChange change;
};

Found Find(const DiffTree& tree, const std::string& name) {
  for (size_t i = 0; i < tree.tree.nodes.size(); i++) {
    if (tree.tree.nodes[i].name == name) return {tree.tree.nodes[i], tree.changes[i]};
  }
  ADD_FAILURE() << "no frame " << name;
  return {};
}

// In 60 s: "commit" grew by half, "seek" shrank to a quarter, "merge" is new, "sync" is gone, and
// "read" did not change.
Pair Before() {
  return Pair(Waits({{"commit", "persist", 20 * kSecond},
                     {"seek", "persist", 24 * kSecond},
                     {"sync", "flush", 12 * kSecond},
                     {"read", "serve", 30 * kSecond}},
                    kSecond / 2),
              Waits({{"commit", "persist", 30 * kSecond},
                     {"seek", "persist", 6 * kSecond},
                     {"merge", "flush", 9 * kSecond},
                     {"read", "serve", 30 * kSecond + kSecond / 4}},
                    kSecond / 2));
}

TEST(DiffGraphTest, MatchesGolden) {
  const Pair pair = Before();
  ExpectGolden(pair.Draw(WidthOf::kB), "diff.svg");
  ExpectGolden(pair.Draw(WidthOf::kMax, {.title = "Before & after", .inverted = true}),
               "diff-max.svg");
}

TEST(DiffGraphTest, WidthIsThatOfTheSide) {
  const Pair pair = Before();
  const auto width = [&](WidthOf of, const std::string& name) {
    return Find(BuildDiffTree(pair.diff, of, false), name).node.value;
  };
  EXPECT_EQ(width(WidthOf::kB, "commit"), kSecond / 2);
  EXPECT_EQ(width(WidthOf::kA, "commit"), kSecond / 3);
  EXPECT_EQ(width(WidthOf::kMax, "commit"), kSecond / 2);
  EXPECT_EQ(width(WidthOf::kMax, "seek"), kSecond * 2 / 5);
  // Sums are those of what is above them.
  EXPECT_EQ(width(WidthOf::kB, "persist"), kSecond * 3 / 5);
  EXPECT_EQ(width(WidthOf::kMax, "persist"), kSecond * 9 / 10);
}

TEST(DiffGraphTest, WhatIsGoneIsToldOrDrawn) {
  const Pair pair = Before();
  const DiffTree tree = BuildDiffTree(pair.diff, WidthOf::kB, false);
  EXPECT_EQ(tree.hidden, 1u);
  EXPECT_EQ(tree.hidden_changed, 1u);
  EXPECT_DOUBLE_EQ(tree.hidden_sum.value, kSecond / 5.0);
  const std::string by_b = pair.Draw(WidthOf::kB);
  EXPECT_THAT(by_b, Not(HasSubstr("<title>sync\n")));
  EXPECT_THAT(by_b, HasSubstr("not drawn: 1 stack that is only in A, 200 ms/s (1 changed "
                              "significantly); use --width-of a or max to draw it"));
  for (const WidthOf width : {WidthOf::kA, WidthOf::kMax}) {
    EXPECT_THAT(pair.Draw(width), HasSubstr("<title>sync\n200 ms/s ± 8.33 ms/s in A, 0 ns/s"));
  }
  EXPECT_THAT(pair.Draw(WidthOf::kMax), Not(HasSubstr("not drawn")));
  EXPECT_THAT(pair.Draw(WidthOf::kA), HasSubstr("only in B"));
}

TEST(DiffGraphTest, ColourIsTheVerdictOfTheTest) {
  const Pair pair = Before();
  const DiffTree tree = BuildDiffTree(pair.diff, WidthOf::kMax, false);
  for (const char* name : {"commit", "seek", "sync", "merge"}) {
    EXPECT_TRUE(Find(tree, name).change.changed) << name;
  }
  EXPECT_FALSE(Find(tree, "read").change.changed);
  EXPECT_FALSE(Find(tree, "serve").change.changed) << "the same stack";
  const std::string svg = pair.Draw(WidthOf::kMax);
  const auto colour = [&](const std::string& name) {
    const size_t title = svg.find("<title>" + name + "\n");
    const size_t at = svg.find("<rect class=\"", title) + 13;
    return svg.substr(at, 2);
  };
  EXPECT_EQ(colour("merge"), "g7") << "new";
  EXPECT_EQ(colour("commit"), "g3") << "by half";
  EXPECT_EQ(colour("seek"), "d5") << "by three quarters";
  EXPECT_EQ(colour("sync"), "d7") << "gone";
  EXPECT_EQ(colour("read"), "n0");
}

TEST(DiffGraphTest, SumsAreTestedToo) {
  // 30 stacks grow by a tenth, each by two standard errors: none is sure, their sum is.
  std::vector<Wait> before, after;
  for (int i = 0; i < 30; i++) {
    before.push_back({absl::StrCat("f", i), "all_of_them", 10 * kSecond});
    after.push_back({absl::StrCat("f", i), "all_of_them", 11 * kSecond});
  }
  const Pair pair(Waits(before, kSecond / 3), Waits(after, kSecond / 3));
  EXPECT_EQ(pair.diff.Changed(), 0u);
  const DiffTree tree = BuildDiffTree(pair.diff, WidthOf::kB, false);
  EXPECT_TRUE(Find(tree, "all_of_them").change.changed);
  EXPECT_TRUE(Find(tree, "all").change.changed) << "the same stacks";
  EXPECT_FALSE(Find(tree, "f3").change.changed);
}

TEST(DiffGraphTest, ChangesThatCancelAreNoneOfTheirCaller) {
  const Pair pair(Waits({{"x", "both", 10 * kSecond}, {"y", "both", 20 * kSecond}}, kSecond / 10),
                  Waits({{"x", "both", 20 * kSecond}, {"y", "both", 10 * kSecond}}, kSecond / 10));
  const DiffTree tree = BuildDiffTree(pair.diff, WidthOf::kB, false);
  EXPECT_TRUE(Find(tree, "x").change.changed);
  EXPECT_TRUE(Find(tree, "y").change.changed);
  EXPECT_FALSE(Find(tree, "both").change.changed);
}

// Nothing changed: stacks and sums each colour something in 5 of 100 pictures at most.
TEST(DiffGraphTest, RarelyColoursWhatDidNotChange) {
  constexpr int kRuns = 100, kStacks = 24;
  constexpr double kError = 0.05 * kSecond;
  // Of 100 runs with a rate of 10 %, more than 19 happen once in 500.
  constexpr int kMost = 19;
  std::mt19937 random(11);
  std::normal_distribution<double> noise(0, kError);
  int coloured = 0;
  for (int run = 0; run < kRuns; run++) {
    std::vector<Wait> before, after;
    for (int i = 0; i < kStacks; i++) {
      const std::string caller = absl::StrCat("caller", i % 8);
      before.push_back({absl::StrCat("f", i), caller, std::llround(kSecond + noise(random))});
      after.push_back({absl::StrCat("f", i), caller, std::llround(kSecond + noise(random))});
    }
    const Pair pair(Waits(before, std::llround(kError)), Waits(after, std::llround(kError)));
    const DiffTree tree = BuildDiffTree(pair.diff, WidthOf::kB, false);
    bool any = false;
    for (const NodeChange& change : tree.changes) any = any || change.changed;
    coloured += any ? 1 : 0;
  }
  EXPECT_LE(coloured, kMost);
}

TEST(DiffGraphTest, NormalizedWidthsAreOnTheScaleOfTheSide) {
  const Pair pair(Waits({{"x", "main", 10 * kSecond}, {"y", "main", 10 * kSecond}}, kSecond / 10),
                  Waits({{"x", "main", 30 * kSecond}, {"y", "main", 10 * kSecond}}, kSecond / 10),
                  true);
  const auto width = [&](WidthOf of, const std::string& name) {
    return static_cast<double>(Find(BuildDiffTree(pair.diff, of, false), name).node.value);
  };
  EXPECT_NEAR(width(WidthOf::kA, "y"), kSecond / 6.0, 1);
  EXPECT_NEAR(width(WidthOf::kB, "y"), kSecond / 6.0, 1);
  // Half of A, which would be a third of a second in a window as long as B's total.
  EXPECT_NEAR(width(WidthOf::kMax, "y"), kSecond / 3.0, 1);
  EXPECT_THAT(pair.Draw(WidthOf::kB), HasSubstr("compared: shares of the total"));
  EXPECT_THAT(pair.Draw(WidthOf::kB), HasSubstr("50.0% ± 0.5% in A, 75.0% ± 0.2% in B: +25.0%"));
  // All of it is all of it on both sides.
  EXPECT_THAT(pair.Draw(WidthOf::kB), HasSubstr("(not significant), 100.0%"));
}

TEST(DiffGraphTest, LevelsAreNoRates) {
  AnswerWriter before(profd::Kind::kResident), after(profd::Kind::kResident);
  for (AnswerWriter* answer : {&before, &after}) {
    const uint32_t thread = answer->AddThread(1, 1, "a", "a", kSecond, 0);
    answer->AddLevel(thread, {{"touch", "a", kApp}}, answer == &before ? 1 << 20 : 3 << 20, 4096,
                     16, 0);
  }
  const Pair pair(before.Build(), after.Build());
  const std::string svg = pair.Draw(WidthOf::kB);
  EXPECT_THAT(svg, HasSubstr("1.00 MiB ± 4.00 KiB in A, 3.00 MiB ± 4.00 KiB in B: +2.00 MiB"));
  EXPECT_THAT(svg, Not(HasSubstr("bytes/s")));
}

TEST(DiffGraphTest, NothingIsAMessage) {
  const Pair pair(Waits({{"x", "main", kSecond}}, kSecond / 10), AnswerWriter().Build());
  const std::string svg = pair.Draw(WidthOf::kB);
  EXPECT_THAT(svg, HasSubstr("There is nothing in B."));
  EXPECT_THAT(svg, HasSubstr("only in A"));
  EXPECT_THAT(pair.Draw(WidthOf::kA), Not(HasSubstr("There is nothing")));
}

}  // namespace
}  // namespace profctl
