#include "client/render/flamegraph_svg.h"
#include "client/render/folded.h"
#include "client/render/gaps.h"
#include "client/render/json.h"
#include "client/render/summary.h"
#include "client/text.h"
#include "client/view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(FoldedTest, MatchesGolden) {
  const Profile profile = ServerAnswer().Build();
  ExpectGolden(RenderFolded(MakeView(profile, false)), "server.folded");
  ExpectGolden(RenderFolded(MakeView(profile, true)), "server-idle.folded");
}

TEST(FoldedTest, EveryLineIsAStackAndANumberAndAllTimeIsThere) {
  const Profile profile = ServerAnswer().Build();
  std::istringstream lines(RenderFolded(MakeView(profile, true)));
  int64_t sum = 0;
  std::string line;
  while (std::getline(lines, line)) {
    const size_t space = line.find(' ');
    ASSERT_NE(space, std::string::npos) << line;
    EXPECT_EQ(line.find(' ', space + 1), std::string::npos) << line;
    EXPECT_EQ(line[space - 1], ']') << "the last frame is the reason: " << line;
    sum += std::stoll(line.substr(space + 1));
  }
  int64_t expected = 0;
  for (const Sample& sample : profile.samples) expected += sample.time_ns;
  EXPECT_EQ(sum, expected);
}

TEST(FoldedTest, UnsampledTimeIsNamed) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a;b c", 100, 0);
  answer.AddSample(thread, profd::v1::REASON_RUNQUEUE, {}, 42, 0);
  const Profile profile = answer.Build();
  EXPECT_EQ(RenderFolded(MakeView(profile, false)), "a:b_c;[unsampled];[runqueue] 42\n");
}

TEST(JsonTest, MatchesGoldenAndIsComplete) {
  const Profile profile = ServerAnswer().Build();
  const std::string text = RenderJson(profile);
  ExpectGolden(text, "server.json");
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["samples"].size(), profile.samples.size());
  EXPECT_EQ(json["threads"].size(), profile.threads.size());
  for (const auto& sample : json["samples"]) {
    EXPECT_LT(sample["thread"].get<size_t>(), json["threads"].size());
    if (sample["stack"].is_null()) continue;
    for (const auto& frame : json["stacks"][sample["stack"].get<size_t>()]["frames"]) {
      EXPECT_LT(frame.get<size_t>(), json["frames"].size());
    }
  }
}

TEST(SummaryTest, MatchesGolden) {
  const Profile server = ServerAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(server, false), false), "server.summary");
  const Profile idle = IdleAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(idle, false), false), "idle.summary");
  const Profile processes = ProcessesAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(processes, true), false), "processes.summary");
  const Profile shed = ShedAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(shed, false), false), "shed.summary");
}

TEST(SummaryTest, FitsAHundredColumnsWithoutControlCharacters) {
  for (const AnswerWriter& answer :
       {ServerAnswer(), IdleAnswer(), ProcessesAnswer(), ShedAnswer()}) {
    const Profile profile = answer.Build();
    std::istringstream lines(RenderSummary(MakeView(profile, true), false));
    std::string line;
    while (std::getline(lines, line)) {
      EXPECT_LE(DisplayWidth(line), 100u) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
    }
  }
}

TEST(SummaryTest, EmptyAnswerIsStillAPage) {
  const Profile profile = AnswerWriter().Build();
  EXPECT_THAT(RenderSummary(MakeView(profile, false), false),
              HasSubstr("No thread matches in this window."));
}

TEST(GapsTest, EachLayerIsMissedByWhatItWouldHaveTold) {
  constexpr int64_t kSecond = 1'000'000'000;
  AnswerWriter answer;
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  answer.header().set_switch_ns(60 * kSecond - kSecond / 2);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  // Layers are counted by whole drains, which may reach over the window's ends.
  answer.header().set_switch_ns(61 * kSecond);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());

  answer.header().set_switch_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("the per-switch layer was off: reasons of that time (0 ns of waits) are "
                          "estimated from the window's 5,980 ticks"));
  answer.header().set_books_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("the per-switch layer was off: all times are estimated from 5,980 ticks",
                          HasSubstr("the kernel's own books were off")));
  answer.header().set_switch_ns(30 * kSecond);
  answer.header().set_books_ns(60 * kSecond);
  answer.header().set_tick_ns(0);
  EXPECT_THAT(
      DescribeGaps(answer.Build()),
      ElementsAre("the per-switch layer was shed for 30.0 s of 60.0 s: reasons of that time "
                  "are not known",
                  "the ticks were off: no stacks were taken in that time"));
  answer.header().set_end_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
}

TEST(FlameGraphTest, MatchesGolden) {
  const Profile server = ServerAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(server, false), Grouping::kName), "server.svg");
  const Profile idle = IdleAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(idle, false), Grouping::kName), "idle.svg");
  const Profile processes = ProcessesAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(processes, false), Grouping::kThread), "processes.svg");
  const Profile shed = ShedAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(shed, false), Grouping::kName), "shed.svg");
}

TEST(FlameGraphTest, HostileNamesStayText) {
  AnswerWriter answer;
  answer.header().set_hostname("]]></script><script>alert(1)</script>");
  const uint32_t thread = answer.AddThread(1, 1, "<b>&", "\"><script>alert(2)</script>", 100, 0);
  answer.AddSample(thread, profd::v1::REASON_LOCK,
                   {{"</title><script>alert(3)</script>", "", profd::v1::FRAME_KIND_APPLICATION}},
                   100, 0);
  const Profile profile = answer.Build();
  const std::string svg = RenderFlameGraph(MakeView(profile, true), Grouping::kName);
  EXPECT_THAT(svg, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;alert(3)"));
}

TEST(FlameGraphTest, NothingIsLoadedFromElsewhere) {
  const Profile profile = ServerAnswer().Build();
  std::string svg = RenderFlameGraph(MakeView(profile, true), Grouping::kName);
  for (const std::string allowed : {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}) {
    for (size_t at = svg.find(allowed); at != std::string::npos; at = svg.find(allowed)) {
      svg.erase(at, allowed.size());
    }
  }
  EXPECT_THAT(svg, Not(HasSubstr("http")));
  EXPECT_THAT(svg, Not(HasSubstr("url(")));
  EXPECT_THAT(svg, Not(HasSubstr("@import")));
}

TEST(FlameGraphTest, NarrowFramesAreCountedNotDrawn) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 2'000'000'000, 0);
  const auto app = profd::v1::FRAME_KIND_APPLICATION;
  answer.AddSample(thread, profd::v1::REASON_LOCK, {{"wide", "a", app}}, 1'000'000'000, 0);
  answer.AddSample(thread, profd::v1::REASON_LOCK, {{"thin", "a", app}}, 1'000, 0);
  const Profile profile = answer.Build();
  const std::string svg = RenderFlameGraph(MakeView(profile, true), Grouping::kName);
  EXPECT_THAT(svg, HasSubstr("2 frames too narrow to draw"));
  EXPECT_THAT(svg, Not(HasSubstr(">thin")));
}

TEST(FlameGraphTest, SizeStaysSmallForManyStacks) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 1'000'000'000'000, 0);
  const auto app = profd::v1::FRAME_KIND_APPLICATION;
  for (int i = 0; i < 2000; ++i) {
    const std::string leaf = "leaf" + std::to_string(i % 50);
    const std::string middle = "middle" + std::to_string(i % 40);
    answer.AddSample(thread, profd::v1::REASON_LOCK,
                     {{leaf, "a", app}, {middle, "a", app}, {"root", "a", app}}, 1'000'000, 0);
  }
  const Profile profile = answer.Build();
  EXPECT_LT(RenderFlameGraph(MakeView(profile, true), Grouping::kName).size(), 400'000u);
}

TEST(FlameGraphTest, StacksDeeperThanAnyCallStackAreDrawn) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 1'000'000'000, 0);
  std::vector<AnswerWriter::FrameSpec> frames(50'000,
                                              {"recurse", "a", profd::v1::FRAME_KIND_APPLICATION});
  answer.AddSample(thread, profd::v1::REASON_LOCK, frames, 1'000'000, 0);
  const Profile profile = answer.Build();
  EXPECT_THAT(RenderFlameGraph(MakeView(profile, true), Grouping::kName), HasSubstr("recurse"));
}

}  // namespace
}  // namespace profctl
