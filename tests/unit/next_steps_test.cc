// The rules of docs/profctl.md, "What to ask next": each just above and just below its limit.
#include "client/render/next_steps.h"

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/profile/durations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr auto kLock = profd::v1::REASON_LOCK;
constexpr auto kNet = profd::v1::REASON_NET;
constexpr auto kSignal = profd::v1::REASON_SIGNAL;
constexpr auto kPipe = profd::v1::REASON_PIPE;
constexpr auto kRunQueue = profd::v1::REASON_RUNQUEUE;
constexpr int64_t kWindow = 1'000'000;

AnswerWriter AnswerOf(profd::Kind kind = profd::Kind::kWait) {
  AnswerWriter answer(kind);
  answer.coverage().set_begin_ns(1);
  answer.coverage().set_end_ns(1 + kWindow);
  return answer;
}

std::vector<AnswerWriter::FrameSpec> In(const std::string& function) {
  return {{function, "a", profd::v1::FRAME_KIND_APPLICATION}};
}

std::vector<std::string> StepsOf(const AnswerWriter& answer, const AskedFor& asked = {}) {
  const Profile profile = answer.Build();
  return NextSteps(MakeView(profile, false), asked);
}

// One thread that waited for one thing and, for the rest of 1000, for something without a rule.
std::vector<std::string> Waits(profd::v1::Reason reason, int64_t value, int64_t error,
                               const AskedFor& asked = {}) {
  AnswerWriter answer = AnswerOf();
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", kWindow, 0);
  answer.AddSample(thread, reason, In("Hot"), value, error);
  answer.AddSample(thread, kSignal, In("Other"), 1000 - value, 0);
  return StepsOf(answer, asked);
}

TEST(NextStepsTest, ContentionFromAFifthOn) {
  EXPECT_THAT(Waits(kLock, 200, 0),
              ElementsAre(StartsWith("profctl locks "), StartsWith("profctl bottlenecks ")));
  EXPECT_THAT(Waits(kLock, 199, 0), IsEmpty());
  EXPECT_THAT(Waits(kLock, 400, 101), IsEmpty()) << "not certain";
}

TEST(NextStepsTest, WaitsForOthersAndBusyThreadsLimitThroughput) {
  EXPECT_THAT(Waits(kPipe, 200, 0), ElementsAre(StartsWith("profctl bottlenecks ")));
  EXPECT_THAT(Waits(kPipe, 199, 0), IsEmpty());
  const auto busy = [](int64_t on_cpu) {
    AnswerWriter answer = AnswerOf();
    answer.AddSample(answer.AddThread(1, 1, "a", "one", kWindow, on_cpu), kSignal, In("f"), 10, 0);
    return StepsOf(answer);
  };
  EXPECT_THAT(busy(900'000), ElementsAre(StartsWith("profctl bottlenecks ")));
  EXPECT_THAT(busy(899'999), IsEmpty());
}

TEST(NextStepsTest, WaitsForPeersLeadToTheirConnections) {
  EXPECT_THAT(Waits(kNet, 200, 0), ElementsAre(StartsWith("profctl fetch --by object --from ")));
  EXPECT_THAT(Waits(kNet, 199, 0), IsEmpty());
  EXPECT_THAT(Waits(kNet, 400, 101), IsEmpty()) << "not certain";
  EXPECT_THAT(Waits(kNet, 1000, 0, {.by_object = true}), IsEmpty()) << "they are there already";
  // Polls of a client that waits for a reply count, those for the next work do not.
  const auto polls = [](bool idle) {
    AnswerWriter answer = AnswerOf();
    answer.AddSample(answer.AddThread(1, 1, "a", "one", kWindow, 0), profd::v1::REASON_POLL,
                     In("f"), 1000, 0);
    if (!idle) answer.message().mutable_samples(0)->clear_attributes();
    const Profile profile = answer.Build();
    return NextSteps(MakeView(profile, true), {});
  };
  EXPECT_THAT(polls(false), ElementsAre(StartsWith("profctl fetch --by object ")));
  EXPECT_THAT(polls(true), IsEmpty());
}

TEST(NextStepsTest, WaitsForFilesLeadToDiskRequests) {
  for (const auto reason : {profd::v1::REASON_DISK, profd::v1::REASON_FSYNC}) {
    EXPECT_THAT(Waits(reason, 200, 0),
                ElementsAre(StartsWith("profctl fetch --kind disk --from ")));
    EXPECT_THAT(Waits(reason, 199, 0), IsEmpty());
  }
}

TEST(NextStepsTest, WaitsForMemoryLeadToMemory) {
  for (const auto reason : {profd::v1::REASON_FAULT, profd::v1::REASON_RECLAIM}) {
    EXPECT_THAT(Waits(reason, 200, 0), ElementsAre(StartsWith("profctl memory --from ")));
    EXPECT_THAT(Waits(reason, 199, 0), IsEmpty());
  }
}

TEST(NextStepsTest, AWaitOfATenthOfTheWindow) {
  const auto longest = [](profd::v1::Reason reason, int64_t ns) {
    AnswerWriter answer = AnswerOf();
    answer.AddSample(answer.AddThread(1, 1, "a", "one", kWindow, 0), reason, In("f"), 900, 0);
    for (auto& off : *answer.message().mutable_threads(0)->mutable_off()) {
      if (off.reason() != reason) continue;
      int bucket = 0;
      while (profd::DurationBucketBegin(static_cast<size_t>(bucket) + 1) <= ns) bucket++;
      off.mutable_durations()->Resize(bucket + 1, 0);
      off.set_durations(bucket, 1);
      off.set_max_ns(ns);
    }
    return StepsOf(answer);
  };
  EXPECT_THAT(longest(kSignal, 100'000), ElementsAre(StartsWith("profctl worst ")));
  EXPECT_THAT(longest(kSignal, 99'999), IsEmpty());
  EXPECT_THAT(longest(profd::v1::REASON_SLEEP, 900'000), IsEmpty()) << "that is idle";
}

TEST(NextStepsTest, DelayFromATenthOfTheRunnableTimeOn) {
  const auto of = [](int64_t on_cpu, int64_t queued) {
    AnswerWriter answer = AnswerOf();
    answer.AddSample(answer.AddThread(1, 1, "a", "one", kWindow, on_cpu), kRunQueue, {}, queued, 0);
    return StepsOf(answer);
  };
  EXPECT_THAT(of(180'000, 20'000), ElementsAre(StartsWith("profctl threads --sort runq ")));
  EXPECT_THAT(of(180'001, 19'999), IsEmpty());
}

TEST(NextStepsTest, GrowthFromATenthOfTheResidentMemoryOn) {
  const auto of = [](int64_t growth) {
    AnswerWriter answer = AnswerOf();
    answer.AddSample(answer.AddThread(1, 1, "a", "one", kWindow, 0), kSignal, In("f"), 10, 0);
    answer.message().mutable_memory()->set_rss_bytes(1000);
    answer.message().mutable_memory()->set_rss_growth_bytes(growth);
    return StepsOf(answer);
  };
  EXPECT_THAT(of(100), ElementsAre(StartsWith("profctl memory ")));
  EXPECT_THAT(of(99), IsEmpty());
}

TEST(NextStepsTest, BytesLeadToMemory) {
  EXPECT_THAT(StepsOf(AllocAnswer()), ElementsAre(StartsWith("profctl memory --from ")));
}

TEST(NextStepsTest, SameWindowAndTargetsToPaste) {
  AnswerWriter answer = AnswerOf();
  answer.coverage().set_begin_ns(1'769'864'700'250'000'000);
  answer.coverage().set_end_ns(1'769'864'760'500'000'000);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  answer.AddSample(thread, kLock, In("Hot"), 1000, 0);
  answer.message().mutable_memory()->set_rss_bytes(1000);
  answer.message().mutable_memory()->set_rss_growth_bytes(1000);
  const std::vector<std::string> steps =
      StepsOf(answer, {.server = "h:1", .targets = {"7", "it's (a)"}, .thread = "work"});
  ASSERT_EQ(steps.size(), kMostNextSteps) << "not the third one";
  EXPECT_EQ(steps[0].substr(0, steps[0].find(" --from")), "profctl --server h:1 locks");
  EXPECT_THAT(steps[0], HasSubstr(":00.250"));
  EXPECT_THAT(steps[0], HasSubstr(":00.500"));
  EXPECT_THAT(steps[0], HasSubstr(" --target 7 --target 'it'\\''s (a)' --thread work  # which"));
}

}  // namespace
}  // namespace profctl
