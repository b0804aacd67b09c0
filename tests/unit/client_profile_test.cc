#include <functional>
#include <limits>
#include <optional>

#include "client/answer/profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using Parts = std::vector<profd::v1::Profile>;

absl::StatusOr<Answer> Built(const Parts& parts, const std::vector<std::string>& asked) {
  ProfileBuilder builder(asked);
  for (const profd::v1::Profile& part : parts) {
    if (absl::Status status = builder.Add(part); !status.ok()) return status;
  }
  return builder.Finish();
}

// The status of an answer after `change` was made to its parts.
template <typename Change>
absl::Status StatusAfter(Change change) {
  Parts parts = ServerAnswer().Parts();
  change(parts);
  return Built(parts, {"offcpu"}).status();
}

// The same for an answer of bytes.
template <typename Change>
absl::Status AllocStatusAfter(Change change) {
  Parts parts = AllocAnswer().Parts();
  change(parts);
  return Built(parts, {"alloc"}).status();
}

TEST(ProfileBuilderTest, TakesAWholeAnswer) {
  EXPECT_TRUE(StatusAfter([](Parts&) {}).ok());
}

TEST(ProfileBuilderTest, WithoutTheLastPartIsIncomplete) {
  const absl::Status status = StatusAfter([](Parts& parts) { parts.pop_back(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            "the answer is incomplete: the stream ended before its last part; try again, or see "
            "profd's log");
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.clear(); }).ok());
}

TEST(ProfileBuilderTest, RefusesPartsOutOfOrder) {
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.erase(parts.begin()); }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.push_back(parts[1]); }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) { parts.insert(parts.begin(), parts[0]); }).ok());
  EXPECT_FALSE(StatusAfter([](Parts& parts) { std::swap(parts[1], parts[3]); }).ok());
}

TEST(ProfileBuilderTest, PartsMayBeOfAnySize) {
  // One part, and one for each entry of a table.
  EXPECT_TRUE(Built({ServerAnswer().Message()}, {"offcpu"}).ok());
  Parts small = ServerAnswer().Parts();
  const profd::v1::Profile samples = small[3];
  small.erase(small.begin() + 3);
  for (const profd::v1::Sample& sample : samples.samples()) {
    profd::v1::Profile part;
    *part.add_samples() = sample;
    small.insert(small.end() - 1, part);
  }
  const absl::StatusOr<Answer> answer = Built(small, {"offcpu"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->message().SerializeAsString(), ServerAnswer().Message().SerializeAsString());
}

TEST(ProfileBuilderTest, RefusesBrokenReferences) {
  constexpr uint32_t kNone = 9999;
  const std::vector<std::function<void(Parts&)>> changes = {
      [](Parts& p) { p[1].mutable_mappings(1)->set_file(kNone); },
      [](Parts& p) { p[1].mutable_mappings(1)->set_build_id(kNone); },
      [](Parts& p) { p[1].mutable_functions(0)->set_name(kNone); },
      [](Parts& p) { p[1].mutable_locations(0)->set_mapping(kNone); },
      [](Parts& p) { p[1].mutable_locations(0)->mutable_lines(0)->set_function(kNone); },
      [](Parts& p) { p[1].mutable_locations(0)->clear_lines(); },
      [](Parts& p) { p[1].mutable_functions(0)->set_suffix(kNone); },
      [](Parts& p) { p[1].mutable_functions(0)->add_other_names(kNone); },
      [](Parts& p) { p[1].mutable_stacks(1)->set_locations(0, kNone); },
      [](Parts& p) { p[1].mutable_stacks(1)->set_locations(0, UINT32_MAX); },
      [](Parts& p) { p[1].mutable_stacks(1)->set_origin(kNone); },
      [](Parts& p) { p[1].mutable_groups(1)->set_labels(0, kNone); },
      [](Parts& p) { p[1].mutable_groups(1)->add_labels(0); },
      [](Parts& p) { p[1].mutable_attributes(0)->set_key(kNone); },
      [](Parts& p) { p[1].mutable_attributes(0)->set_text(kNone); },
      [](Parts& p) { p[2].mutable_threads(0)->set_process(kNone); },
      [](Parts& p) { p[3].mutable_samples(0)->set_stack(kNone); },
      [](Parts& p) { p[3].mutable_samples(0)->set_group(kNone); },
      [](Parts& p) { p[3].mutable_samples(0)->set_threads(0, kNone); },
      [](Parts& p) { p[3].mutable_samples(0)->clear_threads(); },
      [](Parts& p) { p[3].mutable_samples(0)->add_attributes(kNone); },
      [](Parts& p) { p[3].mutable_samples(0)->clear_values(); },
      [](Parts& p) { p[3].mutable_samples(0)->add_errors(1); },
      [](Parts& p) {
        p[3].mutable_samples(0)->add_growth(1), p[3].mutable_samples(0)->add_growth(1);
      },
  };
  for (size_t i = 0; i < changes.size(); i++) {
    EXPECT_EQ(StatusAfter(changes[i]).code(), absl::StatusCode::kDataLoss) << i;
  }
}

TEST(ProfileBuilderTest, RefusesTimesWhoseSumOverflows) {
  for (const int64_t time :
       {std::numeric_limits<int64_t>::max() / 2 + 5, std::numeric_limits<int64_t>::min()}) {
    EXPECT_FALSE(StatusAfter([&](Parts& parts) {
                   for (auto& sample : *parts[3].mutable_samples()) sample.set_values(0, time);
                 }).ok());
    EXPECT_FALSE(StatusAfter([&](Parts& parts) {
                   for (auto& thread : *parts[2].mutable_threads()) {
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

TEST(ProfileBuilderTest, TheSampleTypeHasAUnit) {
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

TEST(ProfileBuilderTest, RefusesOtherSampleTypesThanWereAskedFor) {
  EXPECT_FALSE(Built(AllocAnswer().Parts(), {"free"}).ok());
  EXPECT_FALSE(Built(AllocAnswer().Parts(), {"alloc", "free"}).ok());
  EXPECT_FALSE(Built(AllocAnswer().Parts(), {}).ok());
  EXPECT_TRUE(Built(ServerAnswer().Parts(), {}).ok()) << "offcpu is what is asked for by default";
  Parts parts = AllocAnswer().Parts();
  parts[0].mutable_sample_types(0)->set_name("moonlight");
  EXPECT_EQ(Built(parts, {"moonlight"}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ProfileBuilderTest, EachSampleTypeIsAProfile) {
  Parts parts = AllocAnswer().Parts();
  *parts[0].add_sample_types() = FreeAnswer().type();
  for (profd::v1::Sample& sample : *parts[3].mutable_samples()) {
    const bool first = &sample == &parts[3].samples(0);
    sample.add_values(first ? 77 : 0);
    sample.add_errors(0);
    sample.add_weights(0);
    sample.add_counts(first ? 1 : 0);
  }
  parts[2].mutable_threads(0)->mutable_freed()->set_bytes(77);
  const absl::StatusOr<Answer> answer = Built(parts, {"alloc", "free"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->profiles.size(), 2u);
  EXPECT_EQ(SumHeap(answer->profiles[0])->bytes(), SumHeap(AllocAnswer().Build())->bytes());
  EXPECT_EQ(answer->profiles[0].samples.size(), AllocAnswer().Build().samples.size());
  ASSERT_EQ(answer->profiles[1].samples.size(), 1u) << "those that are 0 are left out";
  EXPECT_EQ(answer->profiles[1].samples[0].value, 77);
  EXPECT_EQ(SumHeap(answer->profiles[1])->bytes(), 77);
}

TEST(ProfileBuilderTest, InlinedLinesAreFramesOfTheirOwn) {
  Parts parts = ServerAnswer().Parts();
  const profd::v1::Stack& stack = parts[1].stacks(1);
  const auto location = static_cast<int>(stack.locations(0));
  profd::v1::Line& line = *parts[1].mutable_locations(location)->add_lines();
  line.set_function(3);
  line.set_line(42);
  const absl::StatusOr<Answer> answer = Built(parts, {"offcpu"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Profile& profile = answer->profiles[0];
  const std::vector<uint32_t>& frames = profile.stacks[1].frames;
  EXPECT_EQ(frames.size(), static_cast<size_t>(stack.locations_size()) + 1);
  EXPECT_EQ(profile.frames[frames[1]].line, 42);
  EXPECT_EQ(profile.frames[frames[1]].address, profile.frames[frames[0]].address);
}

TEST(ProfileBuilderTest, RefusesBytesWhoseSumOverflows) {
  for (const int64_t bytes :
       {std::numeric_limits<int64_t>::max() / 2 + 5, std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    for (const auto list : {&profd::v1::Sample::set_values, &profd::v1::Sample::set_errors,
                            &profd::v1::Sample::set_weights}) {
      EXPECT_FALSE(AllocStatusAfter([&](Parts& parts) {
                     for (auto& sample : *parts[3].mutable_samples()) (sample.*list)(0, bytes);
                   }).ok());
    }
    for (const auto set :
         {&profd::v1::HeapTotal::set_bytes, &profd::v1::HeapTotal::set_weight_bytes,
          &profd::v1::HeapTotal::set_unseen_bytes}) {
      EXPECT_FALSE(AllocStatusAfter([&](Parts& parts) {
                     for (auto& thread : *parts[2].mutable_threads()) {
                       (thread.mutable_allocated()->*set)(bytes);
                     }
                   }).ok());
    }
  }
}

TEST(ProfileBuilderTest, ColumnsHaveBoundsOfTheirOwn) {
  constexpr int64_t kMost = int64_t{1} << 62;
  EXPECT_TRUE(AllocStatusAfter([&](Parts& parts) {
                for (auto& sample : *parts[3].mutable_samples()) sample.set_values(0, 0);
                parts[3].mutable_samples(0)->set_values(0, kMost);
              }).ok());
  EXPECT_FALSE(AllocStatusAfter([&](Parts& parts) {
                 for (auto& sample : *parts[3].mutable_samples()) sample.set_values(0, 1);
                 parts[3].mutable_samples(0)->set_values(0, kMost);
               }).ok());
}

TEST(ProfileBuilderTest, NegativeBytesAreNone) {
  AnswerWriter answer(profd::Kind::kAlloc);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddBytes(thread, {}, -5, -5, 0);
  answer.AddUnseen(thread, 1, -7);
  const Profile profile = answer.Build();
  EXPECT_EQ(profile.samples[0].value, 0);
  EXPECT_EQ(profile.samples[0].error, 0);
  EXPECT_EQ(profile.threads[0].heap->bytes(), 0);
  EXPECT_EQ(profile.threads[0].heap->unseen_bytes(), 0);
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
  EXPECT_THAT(ThreadGroupNames(answer.Build()),
              ::testing::ElementsAre("a/python3", "a/python3", "a/storage", "a/storage", "a/main",
                                     "b/storage-02"));
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
