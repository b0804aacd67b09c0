#include <limits>

#include "client/profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using profd::v1::FetchResponse;
using ::testing::HasSubstr;

// The status of an answer after `change` was made to its parts.
template <typename Change>
absl::Status StatusAfter(Change change) {
  std::vector<FetchResponse> parts = ServerAnswer().Parts();
  change(parts);
  ProfileBuilder builder;
  for (const FetchResponse& part : parts) {
    if (absl::Status status = builder.Add(part); !status.ok()) return status;
  }
  return builder.Finish().status();
}

using Parts = std::vector<FetchResponse>;

TEST(ProfileBuilderTest, TakesAWholeAnswer) {
  EXPECT_TRUE(StatusAfter([](Parts&) {}).ok());
}

TEST(ProfileBuilderTest, WithoutTrailerIsIncomplete) {
  const absl::Status status = StatusAfter([](Parts& parts) { parts.pop_back(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("answer incomplete"));
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.clear(); }).ok());
}

TEST(ProfileBuilderTest, RefusesPartsOutOfOrder) {
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.erase(parts.begin()); }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.push_back(parts[0]); }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.insert(parts.begin(), parts[0]); }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) { std::swap(parts[1], parts[3]); }).ok());
}

TEST(ProfileBuilderTest, PassesOverPartsOfANewerDaemon) {
  EXPECT_TRUE(
      StatusAfter([](Parts& parts) { parts.insert(parts.begin() + 1, FetchResponse()); }).ok());
}

TEST(ProfileBuilderTest, RefusesBrokenReferences) {
  EXPECT_FALSE(StatusAfter([](Parts& parts) {
                 parts[1].mutable_dictionary()->mutable_stacks(0)->set_frames(0, 9999);
               }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) {
                 parts[3].mutable_samples()->mutable_samples(0)->set_stack(9999);
               }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) {
                 parts[3].mutable_samples()->mutable_samples(0)->set_thread(0);
               }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) {
                 parts[1].mutable_dictionary()->mutable_frames(1)->set_id(1);
               }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) {
                 parts[2].mutable_threads()->mutable_threads(0)->set_id(0);
               }).ok());
}

TEST(ProfileBuilderTest, RefusesTimesWhoseSumOverflows) {
  for (const int64_t time :
       {std::numeric_limits<int64_t>::max() / 2 + 5, std::numeric_limits<int64_t>::min()}) {
    EXPECT_FALSE(StatusAfter([&](Parts& parts) {
                   for (auto& sample : *parts[3].mutable_samples()->mutable_samples()) {
                     sample.set_time_ns(time);
                   }
                 }).ok());
    EXPECT_FALSE(StatusAfter([&](Parts& parts) {
                   for (auto& thread : *parts[2].mutable_threads()->mutable_threads()) {
                     thread.mutable_off(0)->set_time_ns(time);
                   }
                 }).ok());
  }
}

TEST(ProfileBuilderTest, NegativeEstimatesAreNoTime) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddSample(thread, profd::v1::REASON_LOCK, {}, -5, -5);
  EXPECT_EQ(answer.Build().samples[0].time_ns, 0);
}

TEST(ProfileBuilderTest, UnknownReasonIsOther) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddSample(thread, static_cast<profd::v1::Reason>(99), {}, 5, 0);
  EXPECT_EQ(answer.Build().samples[0].reason, profd::v1::REASON_OTHER);
}

TEST(ProfileTest, GroupsThreadsByNameOnlyWhereTheNumbersDiffer) {
  AnswerWriter answer;
  for (const char* name : {"python3", "python3", "storage-00", "storage-01", "main"}) {
    answer.AddThread(1, 1, "a", name, 100, 0);
  }
  answer.AddThread(2, 2, "b", "storage-02", 100, 0);
  EXPECT_THAT(
      ThreadGroups(answer.Build()),
      ::testing::ElementsAre("python3", "python3", "storage", "storage", "main", "storage-02"));
}

TEST(ProfileTest, DescribesProcesses) {
  EXPECT_EQ(DescribeProcesses(ServerAnswer().Build()), "reth (4242)");
  EXPECT_EQ(DescribeProcesses(ProcessesAnswer().Build()), "3 processes: pgbench, postgres");
  EXPECT_EQ(DescribeProcesses(AnswerWriter().Build()), "0 processes");
  EXPECT_FALSE(HasManyProcesses(ServerAnswer().Build()));
  EXPECT_TRUE(HasManyProcesses(ProcessesAnswer().Build()));
}

}  // namespace
}  // namespace profctl
