#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "client/analysis/flame_tree.h"
#include "client/answer/json.h"
#include "client/answer/view.h"
#include "client/render/flamegraph_svg.h"
#include "client/render/folded.h"
#include "client/render/gaps.h"
#include "client/render/heap.h"
#include "client/render/summary.h"
#include "client/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::AllOf;
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
  for (const Sample& sample : profile.samples) expected += sample.value;
  EXPECT_EQ(sum, expected);
}

TEST(FoldedTest, TimeOnACpuHasNoReason) {
  AnswerWriter answer(profd::Kind::kCpu);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 400);
  answer.AddSample(thread, profd::v1::REASON_UNSPECIFIED,
                   {{"work", "a", profd::v1::FRAME_KIND_APPLICATION}}, 400, 0);
  const Profile profile = answer.Build();
  EXPECT_EQ(RenderFolded(MakeView(profile, false)), "a;one;work 400\n");
}

TEST(FoldedTest, BytesHaveNoReason) {
  const Profile profile = AllocAnswer().Build();
  const std::string folded = RenderFolded(MakeView(profile, false));
  ExpectGolden(folded, "alloc.folded");
  for (const ReasonInfo& reason : AllReasons()) {
    EXPECT_THAT(folded, Not(HasSubstr("[" + std::string(reason.name) + "]")));
  }
  std::istringstream lines(folded);
  int64_t sum = 0;
  std::string line;
  while (std::getline(lines, line)) sum += std::stoll(line.substr(line.find(' ') + 1));
  EXPECT_EQ(sum, SumHeap(profile)->bytes());
}

TEST(FoldedTest, UnsampledTimeIsNamed) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a;b c", 100, 0);
  answer.AddSample(thread, profd::v1::REASON_RUNQUEUE, {}, 42, 0);
  const Profile profile = answer.Build();
  EXPECT_EQ(RenderFolded(MakeView(profile, false)), "a;a:b_c;[unsampled];[runqueue] 42\n");
}

// An integer of 64 bits, which the mapping writes as a string.
int64_t Number(const nlohmann::json& json) { return std::stoll(json.get<std::string>()); }

nlohmann::json Json(const AnswerWriter& answer) {
  return nlohmann::json::parse(RenderJson(answer.Message({})));
}

TEST(JsonTest, MatchesGoldenAndIsComplete) {
  ExpectGolden(WrittenJson(ServerAnswer()), "server.json");
  const auto json = Json(ServerAnswer());
  EXPECT_EQ(json["samples"].size(), ServerAnswer().Message({}).samples_size());
  for (const auto& sample : json["samples"]) {
    EXPECT_LT(sample["threads"][0].get<size_t>(), json["threads"].size());
    for (const auto& location : json["stacks"][sample["stack"].get<size_t>()]["locations"]) {
      EXPECT_LT(location.get<size_t>(), json["locations"].size());
    }
  }
}

TEST(JsonTest, CanBeReadAgain) {
  for (const AnswerWriter& answer : {ServerAnswer(), AllocAnswer(), ResidentAnswer()}) {
    const profd::v1::Profile written = answer.Message();
    profd::v1::Profile read;
    ASSERT_TRUE(ParseJson(RenderJson(written), &read).ok());
    EXPECT_EQ(read.SerializeAsString(), written.SerializeAsString());
  }
  profd::v1::Profile none;
  EXPECT_EQ(ParseJson("{\"samples\": 5}", &none).code(), absl::StatusCode::kDataLoss);
}

TEST(JsonTest, CallsHaveNoTotalsOfThreads) {
  const auto json = Json(MappedAnswer());
  const auto& type = json["sample_types"][0];
  EXPECT_EQ(type["name"], "mapped");
  EXPECT_EQ(type["unit"], "bytes");
  EXPECT_EQ(Number(type["watched_ns"]), 45'000'000'000);
  EXPECT_FALSE(type.contains("total"));
  EXPECT_EQ(Number(json["cost"]["mapping_calls"]), 400);
  EXPECT_EQ(Number(json["samples"][0]["values"][0]), int64_t{512} << 20);
  EXPECT_EQ(Number(json["samples"][0]["counts"][0]), 2);
}

TEST(JsonTest, LevelsHaveWhatTheyGrewBy) {
  const auto json = Json(ResidentAnswer());
  EXPECT_EQ(json["sample_types"][0]["name"], "rss");
  EXPECT_TRUE(json["sample_types"][0]["level"]);
  int64_t bytes = 0, growth = 0;
  for (const auto& sample : json["samples"]) {
    bytes += Number(sample["values"][0]);
    growth += Number(sample["growth"][0]);
  }
  EXPECT_EQ(bytes, int64_t{848} << 20);
  EXPECT_EQ(growth, int64_t{62} << 20);
  EXPECT_EQ(SumGrowth(ResidentAnswer().Build()), growth);
}

TEST(JsonTest, BytesAddUp) {
  ExpectGolden(WrittenJson(AllocAnswer()), "alloc.json");
  const auto json = Json(AllocAnswer());
  int64_t sum = 0, total = 0;
  for (const auto& sample : json["samples"]) sum += Number(sample["values"][0]);
  for (const auto& thread : json["threads"]) {
    if (thread["name"] == "timer") {
      EXPECT_FALSE(thread.contains("allocated"));
    } else {
      total += Number(thread["allocated"]["bytes"]);
    }
  }
  EXPECT_EQ(total, sum);
  EXPECT_EQ(Number(json["sample_types"][0]["total"]["bytes"]), sum);
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
  const Profile alloc = AllocAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(alloc, false), false), "alloc.summary");
  const Profile free = FreeAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(free, false), false), "free.summary");
  const Profile uncovered = UncoveredAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(uncovered, false), false), "uncovered.summary");
  const Profile unwatched = UnwatchedAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(unwatched, false), false), "unwatched.summary");
  const Profile resident = ResidentAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(resident, false), false), "resident.summary");
  const Profile mapped = MappedAnswer().Build();
  ExpectGolden(RenderSummary(MakeView(mapped, false), false), "mapped.summary");
}

// Waits of two threads for locks add up: 98 of 1.0 to 1.5 us, two of 4 to 6 us, the longest 5 us.
TEST(SummaryTest, HowLongWaitsWereIsInColumns) {
  AnswerWriter writer;
  for (int i = 0; i < 2; ++i) {
    const uint32_t thread = writer.AddThread(1, i + 1, "server", "worker", 1'000'000, 0);
    writer.AddSample(thread, profd::v1::REASON_LOCK, {}, 150'000, 0);
    writer.AddSample(thread, profd::v1::REASON_SLEEP, {}, 700'000, 0);
    profd::v1::ReasonTotal& locks = *writer.message().mutable_threads(i)->mutable_off(0);
    for (const uint64_t count : {0, 49, 0, 0, 0, 1}) locks.add_durations(count);
    locks.set_max_ns(5'000);
  }
  const Profile profile = writer.Build();
  ExpectGolden(RenderSummary(MakeView(profile, false), false), "durations.summary");
  // Two waits are not over, and took longer than any that is: the time of both over one is no mean.
  for (auto& thread : *writer.message().mutable_threads()) thread.mutable_off(0)->set_waits(1);
  const Profile unfinished = writer.Build();
  EXPECT_THAT(
      RenderSummary(MakeView(unfinished, false), false),
      HasSubstr("  lock     300 us  17.6%      2          -  1.23 us  4.50 us  5.00 us  a"));
}

// The sums that alloc.summary shows, by hand.
TEST(SummaryTest, WaitsAndSyncsHaveATableOfFiles) {
  for (const profd::Kind kind : {profd::Kind::kWait, profd::Kind::kSync}) {
    AnswerWriter answer(kind);
    const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
    answer.AddSample(thread, profd::v1::REASON_FSYNC,
                     {{"Commit", "a", profd::v1::FRAME_KIND_APPLICATION}}, 400, 0);
    profd::v1::FileSync* sync = answer.message().add_syncs();
    sync->set_file("/data/wal");
    sync->set_call("fdatasync");
    sync->set_calls(2);
    sync->set_total_ns(400);
    const Profile profile = answer.Build();
    EXPECT_THAT(RenderSummary(MakeView(profile, false), false),
                AllOf(HasSubstr("File syncs"), HasSubstr("fdatasync  /data/wal")));
  }
}

TEST(SummaryTest, MemoryIsTheSumOfItsSamples) {
  const Profile profile = AllocAnswer().Build();
  int64_t sum = 0;
  for (const Sample& sample : profile.samples) sum += sample.value;
  EXPECT_EQ(sum, (int64_t{4 * 160 + 6 + 3 * 200 + 20 + 5 + 3} << 20) + (104 << 10));
}

TEST(SummaryTest, FunctionsBeyondTheMostAreCounted) {
  AnswerWriter answer(profd::Kind::kAlloc);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  for (int i = 0; i < 13; ++i) {
    const std::string name = "f" + std::to_string(i);
    answer.AddBytes(thread, {{name, "a", profd::v1::FRAME_KIND_APPLICATION}}, (100 - i) << 10, 0,
                    1);
  }
  const Profile profile = answer.Build();
  const std::string page = RenderSummary(MakeView(profile, false), false);
  // f10, f11 and f12 with 90, 89 and 88 KiB.
  ExpectGolden(page, "many-functions.summary");
}

// They differ in frames of the kernel, which a summary leaves out when there is enough else to say.
TEST(SummaryTest, StacksOfWhichTheSameIsShownAreOne) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "server", "server", 4'000'000'000, 0);
  std::vector<AnswerWriter::FrameSpec> frames = {
      {"submit_bio", "kernel", profd::v1::FRAME_KIND_KERNEL}};
  for (const char* name : {"F", "E", "D", "C", "B", "A"}) {
    frames.push_back({name, "server", profd::v1::FRAME_KIND_APPLICATION});
  }
  answer.AddSample(thread, profd::v1::REASON_DISK, frames, 3'000'000'000, 3);
  frames.front().function = "submit_bio_wait";
  answer.AddSample(thread, profd::v1::REASON_DISK, frames, 1'000'000'000, 4);
  const Profile profile = answer.Build();
  const std::string page = RenderSummary(MakeView(profile, false), false);
  EXPECT_THAT(page, AllOf(HasSubstr("  1. 4.00 s  100.0% ± <0.1%  [disk]  in server"),
                          Not(HasSubstr("  2. "))));
}

TEST(SummaryTest, SaysThatNothingIsWatched) {
  AnswerWriter answer = UnwatchedAnswer();
  const auto page_of = [](const AnswerWriter& writer) {
    const Profile profile = writer.Build();
    return RenderSummary(MakeView(profile, false), false);
  };
  ExpectGolden(page_of(answer), "unwatched.summary");
  answer.type().set_watched_ns(60'000'000'000);
  ExpectGolden(page_of(answer), "nobody-allocates.summary");
  ExpectGolden(page_of(AnswerWriter(profd::Kind::kFree)), "empty-free.summary");
}

TEST(SummaryTest, HasNoControlCharacters) {
  for (const AnswerWriter& answer :
       {ServerAnswer(), IdleAnswer(), ProcessesAnswer(), ShedAnswer(), AllocAnswer(), FreeAnswer(),
        UncoveredAnswer(), UnwatchedAnswer()}) {
    const Profile profile = answer.Build();
    EXPECT_EQ(RenderSummary(MakeView(profile, true), false).find('\x1b'), std::string::npos);
  }
}

TEST(SummaryTest, EmptyAnswerIsStillAPage) {
  const Profile profile = AnswerWriter().Build();
  ExpectGolden(RenderSummary(MakeView(profile, false), false), "empty.summary");
}

TEST(GapsTest, EachLayerIsMissedByWhatItWouldHaveTold) {
  constexpr int64_t kSecond = 1'000'000'000;
  AnswerWriter answer;
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  answer.coverage().set_switch_ns(60 * kSecond - kSecond / 2);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  // Layers are counted by whole drains, which may reach over the window's ends.
  answer.coverage().set_switch_ns(61 * kSecond);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());

  answer.coverage().set_switch_ns(0);
  EXPECT_THAT(
      DescribeGaps(answer.Build()),
      ElementsAre("the switch layer was off: reasons for 0 ns of waits are estimated from 5,980 "
                  "ticks"));
  answer.coverage().set_books_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("the switch layer was off: all times are estimated from 5,980 ticks",
                          "the books layer was off: nothing checks times of that period"));
  answer.coverage().set_switch_ns(30 * kSecond);
  answer.coverage().set_books_ns(60 * kSecond);
  answer.coverage().set_tick_ns(0);
  EXPECT_THAT(
      DescribeGaps(answer.Build()),
      ElementsAre("the switch layer was off for 30.0 s of 60.0 s: reasons during that time are "
                  "unknown",
                  "the tick layer was off: no stacks for that time"));
  answer.coverage().set_end_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
}

TEST(GapsTest, OfMemoryIsMissingWhatWasNotWatched) {
  constexpr int64_t kSecond = 1'000'000'000;
  AnswerWriter answer = AllocAnswer();
  // What the other layers did is of no matter.
  answer.coverage().set_switch_ns(0);
  answer.coverage().set_tick_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  answer.type().set_watched_ns(60 * kSecond - kSecond / 2);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  answer.type().set_watched_ns(61 * kSecond);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  answer.type().set_watched_ns(48 * kSecond);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("allocations were not watched for 12.0 s of 60.0 s: memory allocated "
                          "during that time is unknown"));
  answer = FreeAnswer();
  answer.type().set_watched_ns(48 * kSecond);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("frees were not watched for 12.0 s of 60.0 s: memory freed during that "
                          "time is unknown"));
  answer.type().set_watched_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("frees were not watched in this window: 'profctl status' says why"));
  // A profile of waits does not miss them.
  EXPECT_THAT(DescribeGaps(ServerAnswer().Build()), IsEmpty());
}

TEST(GapsTest, EstimatesFromBurstsSaySo) {
  constexpr int64_t kSecond = 1'000'000'000;
  AnswerWriter answer(profd::Kind::kAlloc);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddBytes(thread, {}, 100 << 16, 0, 98);
  answer.coverage().set_bursts_on_ns(60 * kSecond);
  answer.coverage().set_bursts(12);
  answer.coverage().set_burst_ns(12 * kSecond / 50);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty()) << "all of it is exact";
  answer.SetEstimatedBytes(thread, 25 << 16);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("glibc's malloc is estimated from 12 bursts of tracing, 0.40% of the "
                          "window"));
  EXPECT_EQ(DescribeSource(answer.Build(), *SumHeap(answer.Build())),
            "of which 1.56 MiB estimated from 12 bursts of tracing, 0.40% of the window");
  answer.SetEstimatedBytes(thread, 200 << 16);  // more than there is
  EXPECT_EQ(DescribeSource(answer.Build(), *SumHeap(answer.Build())),
            "estimated from 12 bursts of tracing, 0.40% of the window");
  answer.coverage().set_bursts(0);
  answer.type().set_watched_ns(0);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("no tracing burst in this window, so calls to glibc's malloc are "
                          "unknown; use a longer window"));
}

TEST(GapsTest, CoverageIsBadUnder98Percent) {
  AnswerWriter answer(profd::Kind::kAlloc);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddBytes(thread, {}, 98 << 16, 0, 98);
  answer.AddUnseen(thread, 2, 2 << 16);
  EXPECT_THAT(DescribeGaps(answer.Build()), IsEmpty());
  answer.AddUnseen(thread, 1, 1 << 16);
  EXPECT_THAT(DescribeGaps(answer.Build()),
              ElementsAre("no probe saw 3 events with 192 KiB (3.0% of the bytes); their bytes are "
                          "attributed to the stacks that were seen"));
}

// No node holds less than what is above it.
void CheckNode(const FlameTree& tree, uint32_t index) {
  const FlameNode& node = tree.nodes[index];
  EXPECT_NE(node.kind, NodeKind::kReason);
  int64_t above = 0;
  double variance = 0;
  for (const uint32_t child : node.children) {
    above += tree.nodes[child].value;
    variance += tree.nodes[child].variance;
    CheckNode(tree, child);
  }
  EXPECT_LE(above, node.value) << node.name;
  EXPECT_LE(variance, node.variance * (1 + 1e-9)) << node.name;
}

TEST(FlameTreeTest, BytesAddUpToTheExactTotals) {
  const Profile profile = AllocAnswer().Build(AnswerWriter::kByThread);
  const FlameTree tree = BuildFlameTree(MakeView(profile, false));
  CheckNode(tree, 0);
  EXPECT_EQ(tree.nodes[0].value, SumHeap(profile)->bytes());
  double variance = 0;
  for (const Sample& sample : profile.samples) {
    variance += static_cast<double>(sample.error) * static_cast<double>(sample.error);
  }
  EXPECT_DOUBLE_EQ(tree.nodes[0].variance, variance);
  ASSERT_EQ(tree.nodes[0].children.size(), 10u);  // all threads but the unknown one
  for (const uint32_t child : tree.nodes[0].children) {
    const FlameNode& node = tree.nodes[child];
    const auto thread =
        std::find_if(profile.threads.begin(), profile.threads.end(), [&](const Thread& candidate) {
          return node.name == candidate.name + " (" + std::to_string(candidate.tid) + ")";
        });
    ASSERT_NE(thread, profile.threads.end()) << node.name;
    EXPECT_EQ(node.value, thread->heap->bytes()) << node.name;
  }
}

TEST(FlameTreeTest, AStackMayEndWhereAnotherGoesOn) {
  const auto app = profd::v1::FRAME_KIND_APPLICATION;
  AnswerWriter answer(profd::Kind::kAlloc);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddBytes(thread, {{"outer", "a", app}}, 300, 0, 1);
  answer.AddBytes(thread, {{"inner", "a", app}, {"outer", "a", app}}, 700, 0, 1);
  const Profile profile = answer.Build();
  const View view = MakeView(profile, false);
  const FlameTree tree = BuildFlameTree(view);
  ASSERT_EQ(tree.nodes.size(), 4u);  // all, thread, outer, inner
  EXPECT_EQ(tree.nodes[2].value, 1000);
  EXPECT_EQ(tree.nodes[3].value, 700);
  EXPECT_EQ(RenderFolded(view), "a;a;outer 300\na;a;outer;inner 700\n");
  const std::string svg = RenderFlameGraph(view);
  EXPECT_THAT(svg, HasSubstr("data-s=\"0\" data-e=\"1000\" data-d=\"2\"><title>outer\n1000 B, "));
  EXPECT_THAT(svg, HasSubstr("data-s=\"300\" data-e=\"1000\" data-d=\"3\"><title>inner\n700 B, "));
}

TEST(FlameGraphTest, MatchesGolden) {
  const Profile server = ServerAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(server, false)), "server.svg");
  const Profile idle = IdleAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(idle, false)), "idle.svg");
  const Profile processes = ProcessesAnswer().Build(AnswerWriter::kByThread);
  ExpectGolden(RenderFlameGraph(MakeView(processes, false)), "processes.svg");
  const Profile shed = ShedAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(shed, false)), "shed.svg");
  const Profile alloc = AllocAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(alloc, false)), "alloc.svg");
  const Profile freed = FreeAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(freed, false)), "free.svg");
  const Profile uncovered = UncoveredAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(uncovered, false)), "uncovered.svg");
  const Profile unwatched = UnwatchedAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(unwatched, false)), "unwatched.svg");
  const Profile resident = ResidentAnswer().Build();
  ExpectGolden(RenderFlameGraph(MakeView(resident, false)), "resident.svg");
}

TEST(FlameGraphTest, TheScriptFormatsWhatIsDrawn) {
  const Profile alloc = AllocAnswer().Build();
  const std::string bytes = RenderFlameGraph(MakeView(alloc, false));
  const Profile waits = ServerAnswer().Build();
  const std::string times = RenderFlameGraph(MakeView(waits, false));
  EXPECT_THAT(bytes, AllOf(HasSubstr("function size(bytes)"), Not(HasSubstr("@FORMAT")),
                           Not(HasSubstr("function duration(ns)"))));
  EXPECT_THAT(times, AllOf(HasSubstr("function duration(ns)"), Not(HasSubstr("@FORMAT")),
                           Not(HasSubstr("function size(bytes)"))));
}

struct Colour {
  double hue, saturation, lightness;  // degrees, 0 to 1, 0 to 1
};

// The relative luminance of WCAG 2.1.
double Luminance(const Colour& colour) {
  const double chroma = colour.saturation * std::min(colour.lightness, 1 - colour.lightness);
  const auto channel = [&](double n) {
    const double k = std::fmod(n + colour.hue / 30, 12);
    const double value = colour.lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return value <= 0.03928 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(4);
}

TEST(FlameGraphTest, ColoursOfMemoryAreGreenReadableAndApart) {
  const Profile profile = AllocAnswer().Build();
  std::string svg = RenderFlameGraph(MakeView(profile, false));
  const size_t first = svg.find("{fill:hsl(");
  svg.erase(svg.find("@media", first));
  std::map<char, std::vector<Colour>> palettes;
  for (size_t at = svg.find("{fill:hsl("); at != std::string::npos;
       at = svg.find("{fill:hsl(", at + 1)) {
    int hue = 0, saturation = 0, lightness = 0;
    ASSERT_EQ(
        std::sscanf(svg.c_str() + at, "{fill:hsl(%d,%d%%,%d%%)", &hue, &saturation, &lightness), 3);
    palettes[svg[at - 2]].push_back(
        {static_cast<double>(hue), saturation / 100.0, lightness / 100.0});
  }
  EXPECT_EQ(palettes.size(), 6u);
  const double text = Luminance({240, 0.069, 0.114});  // #1b1b1f
  for (const auto& [letter, colours] : palettes) {
    for (const Colour& colour : colours) {
      // 7 is what WCAG asks for its highest level.
      EXPECT_GT((Luminance(colour) + 0.05) / (text + 0.05), 7) << letter;
      if (std::string("aulk").find(letter) == std::string::npos) continue;
      EXPECT_GE(colour.hue, 60) << letter;
      EXPECT_LE(colour.hue, 180) << letter;
      for (const auto& [other, others] : palettes) {
        if (other == letter) continue;
        for (const Colour& neighbour : others) {
          const bool apart = std::abs(colour.hue - neighbour.hue) >= 12 ||
                             std::abs(colour.saturation - neighbour.saturation) >= 0.2;
          EXPECT_TRUE(apart) << letter << " and " << other;
        }
      }
    }
  }
}

TEST(FlameGraphTest, HostileNamesStayText) {
  AnswerWriter answer;
  answer.message().mutable_host()->set_hostname("]]></script><script>alert(1)</script>");
  const uint32_t thread = answer.AddThread(1, 1, "<b>&", "\"><script>alert(2)</script>", 100, 0);
  answer.AddSample(thread, profd::v1::REASON_LOCK,
                   {{"</title><script>alert(3)</script>", "", profd::v1::FRAME_KIND_APPLICATION}},
                   100, 0);
  const Profile profile = answer.Build();
  const std::string svg = RenderFlameGraph(MakeView(profile, true));
  EXPECT_THAT(svg, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;alert(3)"));
}

TEST(FlameGraphTest, NothingIsLoadedFromElsewhere) {
  const Profile profile = ServerAnswer().Build();
  std::string svg = RenderFlameGraph(MakeView(profile, true));
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
  const std::string svg = RenderFlameGraph(MakeView(profile, true));
  EXPECT_EQ(svg.find(">thin"), std::string::npos);
  ExpectGolden(svg, "narrow.svg");
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
  EXPECT_LT(RenderFlameGraph(MakeView(profile, true)).size(), 400'000u);
}

TEST(FlameGraphTest, StacksDeeperThanAnyCallStackAreDrawn) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 1'000'000'000, 0);
  std::vector<AnswerWriter::FrameSpec> frames(50'000,
                                              {"recurse", "a", profd::v1::FRAME_KIND_APPLICATION});
  answer.AddSample(thread, profd::v1::REASON_LOCK, frames, 1'000'000, 0);
  const Profile profile = answer.Build();
  EXPECT_THAT(RenderFlameGraph(MakeView(profile, true)), HasSubstr("recurse"));
}

}  // namespace
}  // namespace profctl
