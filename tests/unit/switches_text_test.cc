// What the client makes of context switches: a kind of numbers, not of time or bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/answer/kind.h"
#include "client/answer/view.h"
#include "client/render/findings.h"
#include "client/render/flamegraph_svg.h"
#include "client/render/folded.h"
#include "client/render/speedscope.h"
#include "client/render/summary.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// 12,000 switches of one thread for a lock, 3,000 preemptions, and a thread without a sample.
AnswerWriter Switches() {
  AnswerWriter answer(profd::Kind::kSwitch);
  answer.type().set_count(500);
  answer.type().set_period(30);
  const uint32_t worker = answer.AddThread(1, 1, "server", "worker", 60'000, 20'000);
  answer.AddSample(worker, profd::v1::REASON_LOCK,
                   {{"Pop", "server", profd::v1::FRAME_KIND_APPLICATION}}, 12'000, 100);
  answer.AddSample(worker, profd::v1::REASON_RUNQUEUE,
                   {{"Compute", "server", profd::v1::FRAME_KIND_APPLICATION}}, 3'000, 100);
  const uint32_t other = answer.AddThread(1, 2, "server", "other", 60'000, 0);
  answer.AddSample(other, profd::v1::REASON_PIPE, {}, 2, 0);
  return answer;
}

TEST(SwitchesTextTest, NumbersHaveNoUnit) {
  EXPECT_EQ(FormatValue(1'234'567, Unit::kCount), "1,234,567");
  EXPECT_EQ(FormatValue(-5, Unit::kCount), "0");
  EXPECT_EQ(profd::UnitName(Unit::kCount), "count");
}

TEST(SwitchesTextTest, TheSummarySaysWhereAndHowSure) {
  const Profile profile = Switches().Build();
  const std::string text = RenderSummary(MakeView(profile, false), false);
  EXPECT_THAT(text, AllOf(HasSubstr("Context switches of server"),
                          HasSubstr("Widest stacks (15,002 switches; ± one standard error)"),
                          HasSubstr("1. 12,000  80.0%"), HasSubstr("[lock]"),
                          HasSubstr("500, one per 30 switches on average"),
                          HasSubstr("99.8% of the switches"),
                          HasSubstr("threads with too few switches to be sampled")));
  EXPECT_THAT(text, Not(HasSubstr("Idle waits"))) << "none is left out";
}

TEST(SwitchesTextTest, FindingsTellWaitsFromPreemptions) {
  const Profile profile = Switches().Build();
  std::vector<std::string> texts;
  for (const profd::v1::Finding& finding : Findings(MakeView(profile, false))) {
    texts.push_back(finding.text());
  }
  EXPECT_THAT(texts,
              ElementsAre("80.0% ± 0.7% of the context switches (12,000) are to wait for a lock or "
                          "condition (futex), by Pop, in worker."));
  AnswerWriter preempted(profd::Kind::kSwitch);
  const uint32_t thread = preempted.AddThread(1, 1, "server", "worker", 60'000, 20'000);
  preempted.AddSample(thread, profd::v1::REASON_RUNQUEUE,
                      {{"Compute", "server", profd::v1::FRAME_KIND_APPLICATION}}, 3'000, 0);
  const Profile alone = preempted.Build();
  EXPECT_EQ(Findings(MakeView(alone, false)).at(0).text(),
            "100.0% of the context switches (3,000) are preemptions in Compute, in worker.");
}

TEST(SwitchesTextTest, GraphsAndFoldedStacksHaveTheNumbers) {
  const Profile profile = Switches().Build();
  const View view = MakeView(profile, false);
  EXPECT_THAT(RenderFolded(view), AllOf(HasSubstr("server;worker;Pop;[lock] 12000\n"),
                                        HasSubstr("server;worker;Compute;[runqueue] 3000\n")));
  EXPECT_THAT(RenderFlameGraph(view, {}),
              AllOf(HasSubstr("shown: 15,002 switches"), HasSubstr("12,000 ± 100, 80.0%"),
                    HasSubstr("' times'"), HasSubstr("function number(count)")));
  EXPECT_THAT(RenderSpeedscope({view}), AllOf(HasSubstr("\"unit\":\"none\""), HasSubstr("15002")));
}

}  // namespace
}  // namespace profctl
