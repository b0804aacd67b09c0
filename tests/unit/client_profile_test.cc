#include <limits>
#include <optional>

#include "client/profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using profd::v1::FetchResponse;
using profd::v1::PROFILE_KIND_ALLOC;
using profd::v1::PROFILE_KIND_FREE;
using profd::v1::PROFILE_KIND_OFFCPU;
using profd::v1::PROFILE_KIND_UNSPECIFIED;
using ::testing::HasSubstr;

absl::StatusOr<Profile> Built(const std::vector<FetchResponse>& parts,
                              profd::v1::ProfileKind asked) {
  ProfileBuilder builder(asked);
  for (const FetchResponse& part : parts) {
    if (absl::Status status = builder.Add(part); !status.ok()) return status;
  }
  return builder.Finish();
}

// The status of an answer after `change` was made to its parts.
template <typename Change>
absl::Status StatusAfter(Change change) {
  std::vector<FetchResponse> parts = ServerAnswer().Parts();
  change(parts);
  return Built(parts, PROFILE_KIND_OFFCPU).status();
}

// The same for an answer of bytes.
template <typename Change>
absl::Status AllocStatusAfter(Change change) {
  std::vector<FetchResponse> parts = AllocAnswer().Parts();
  change(parts);
  return Built(parts, PROFILE_KIND_ALLOC).status();
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
  EXPECT_EQ(answer.Build().samples[0].value, 0);
}

TEST(ProfileBuilderTest, TheHeaderSaysTheUnit) {
  const Profile waits = ServerAnswer().Build();
  EXPECT_EQ(waits.unit, Unit::kNanoseconds);
  EXPECT_EQ(waits.samples[0].value, 43'000'000'000);
  EXPECT_EQ(waits.samples[0].count, 4300u);
  const Profile memory = AllocAnswer().Build();
  EXPECT_EQ(memory.unit, Unit::kBytes);
  EXPECT_EQ(memory.samples[0].value, 128 << 20);
  EXPECT_EQ(memory.samples[0].error, 5 << 20);
  EXPECT_EQ(memory.samples[0].weight, 2048 * 65536);
  EXPECT_EQ(memory.samples[0].count, 2048u);
  EXPECT_EQ(memory.samples[0].reason, profd::v1::REASON_UNSPECIFIED);
}

TEST(ProfileBuilderTest, EachUnitReadsItsOwnFieldsOnly) {
  std::vector<FetchResponse> parts = AllocAnswer().Parts();
  profd::v1::Sample& sample = *parts[3].mutable_samples()->mutable_samples(0);
  sample.set_time_ns(7);
  sample.set_reason(profd::v1::REASON_LOCK);
  const absl::StatusOr<Profile> memory = Built(parts, PROFILE_KIND_ALLOC);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->samples[0].value, sample.bytes());
  parts[0].mutable_header()->set_kind(PROFILE_KIND_OFFCPU);
  const absl::StatusOr<Profile> waits = Built(parts, PROFILE_KIND_OFFCPU);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ(waits->samples[0].value, 7);
  EXPECT_EQ(waits->samples[0].count, 0u);
}

TEST(ProfileBuilderTest, RefusesAnotherKindThanWasAskedFor) {
  const auto status_of = [](profd::v1::ProfileKind answered, profd::v1::ProfileKind asked) {
    std::vector<FetchResponse> parts = AllocAnswer().Parts();
    parts[0].mutable_header()->set_kind(answered);
    return Built(parts, asked).status();
  };
  for (const auto asked : {PROFILE_KIND_ALLOC, PROFILE_KIND_FREE}) {
    EXPECT_TRUE(status_of(asked, asked).ok());
    for (const auto answered : {PROFILE_KIND_UNSPECIFIED, PROFILE_KIND_OFFCPU}) {
      EXPECT_EQ(status_of(answered, asked).message(),
                "this profd does not know profiles of that kind; update it");
    }
  }
  EXPECT_FALSE(status_of(PROFILE_KIND_FREE, PROFILE_KIND_ALLOC).ok());
  EXPECT_FALSE(status_of(PROFILE_KIND_ALLOC, PROFILE_KIND_FREE).ok());
  // Off-CPU is what a daemon that knows no kinds answers.
  EXPECT_TRUE(status_of(PROFILE_KIND_UNSPECIFIED, PROFILE_KIND_OFFCPU).ok());
  EXPECT_TRUE(status_of(PROFILE_KIND_OFFCPU, PROFILE_KIND_OFFCPU).ok());
  for (const int answered : {2, 3, 99, -1}) {
    EXPECT_THAT(
        std::string(status_of(static_cast<profd::v1::ProfileKind>(answered), PROFILE_KIND_OFFCPU)
                        .message()),
        HasSubstr("damaged"));
  }
}

TEST(ProfileBuilderTest, RefusesBytesWhoseSumOverflows) {
  for (const int64_t bytes :
       {std::numeric_limits<int64_t>::max() / 2 + 5, std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    for (const auto set : {&profd::v1::Sample::set_bytes, &profd::v1::Sample::set_error_bytes,
                           &profd::v1::Sample::set_weight_bytes}) {
      EXPECT_FALSE(AllocStatusAfter([&](Parts& parts) {
                     for (auto& sample : *parts[3].mutable_samples()->mutable_samples()) {
                       (sample.*set)(bytes);
                     }
                   }).ok());
    }
    for (const auto set :
         {&profd::v1::HeapTotal::set_bytes, &profd::v1::HeapTotal::set_weight_bytes,
          &profd::v1::HeapTotal::set_unseen_bytes}) {
      EXPECT_FALSE(AllocStatusAfter([&](Parts& parts) {
                     for (auto& thread : *parts[2].mutable_threads()->mutable_threads()) {
                       (thread.mutable_heap()->*set)(bytes);
                     }
                   }).ok());
    }
  }
}

TEST(ProfileBuilderTest, ColumnsHaveBoundsOfTheirOwn) {
  constexpr int64_t kMost = int64_t{1} << 62;
  EXPECT_TRUE(AllocStatusAfter([&](Parts& parts) {
                for (auto& sample : *parts[3].mutable_samples()->mutable_samples()) {
                  sample.set_bytes(0);
                }
                parts[3].mutable_samples()->mutable_samples(0)->set_bytes(kMost);
              }).ok());
  EXPECT_FALSE(AllocStatusAfter([&](Parts& parts) {
                 for (auto& sample : *parts[3].mutable_samples()->mutable_samples()) {
                   sample.set_bytes(1);
                 }
                 parts[3].mutable_samples()->mutable_samples(0)->set_bytes(kMost);
               }).ok());
}

TEST(ProfileBuilderTest, NegativeBytesAreNone) {
  AnswerWriter answer(PROFILE_KIND_ALLOC);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddBytes(thread, {}, -5, -5, 0);
  answer.AddUnseen(thread, 1, -7);
  const Profile profile = answer.Build();
  EXPECT_EQ(profile.samples[0].value, 0);
  EXPECT_EQ(profile.samples[0].error, 0);
  EXPECT_EQ(profile.threads[0].heap().bytes(), 0);
  EXPECT_EQ(profile.threads[0].heap().unseen_bytes(), 0);
}

TEST(ProfileTest, SumsTheHeapOfThreadsOfWhichItIsKnown) {
  const Profile profile = AllocAnswer().Build();
  const std::optional<profd::v1::HeapTotal> heap = SumHeap(profile);
  ASSERT_TRUE(heap.has_value());
  int64_t estimated = 0;
  uint64_t events = 0;
  for (const Sample& sample : profile.samples) {
    estimated += sample.value;
    events += sample.count;
  }
  EXPECT_EQ(heap->bytes(), estimated);
  EXPECT_EQ(heap->events(), events);
  EXPECT_EQ(heap->gaps(), 2u);
  EXPECT_EQ(heap->unseen_bytes(), 128 << 10);
  EXPECT_FALSE(SumHeap(UnwatchedAnswer().Build()).has_value());
  EXPECT_FALSE(SumHeap(ServerAnswer().Build()).has_value());
}

TEST(ProfileTest, HasSamplesOfItsKind) {
  EXPECT_TRUE(HasSamples(ServerAnswer().Build()));
  EXPECT_FALSE(HasSamples(AnswerWriter().Build()));
  EXPECT_TRUE(HasSamples(AllocAnswer().Build()));
  EXPECT_FALSE(HasSamples(UnwatchedAnswer().Build()));
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
