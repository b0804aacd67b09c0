#include "client/analysis/chains.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/analysis/activity.h"
#include "client/render/why.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_activity.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Chains Follow(const Program& program, uint32_t group, const ChainOptions& options = {}) {
  return FollowChains(program.activity(), {.part = group, .whole = group}, options);
}

// Seconds of the ends of that kind and function.
double Ends(const Chains& chains, LinkKind kind, const std::string& function = "") {
  double sum = 0;
  for (const ChainEnd& end : chains.ends) {
    if (end.end.kind != kind) continue;
    if (function.empty() || end.wait.function == function) sum += end.end.time_ns;
  }
  return sum / kS;
}

void ExpectAddsUp(const Link& link) {
  if (link.next.empty()) return;
  double sum = 0;
  for (const Link& next : link.next) {
    sum += next.time_ns;
    ExpectAddsUp(next);
  }
  EXPECT_NEAR(sum, link.time_ns, 1e-6 * link.time_ns);
}

void ExpectAddsUp(const Chains& chains) {
  double links = 0, ends = 0;
  for (const Link& link : chains.links) {
    links += link.time_ns;
    ExpectAddsUp(link);
  }
  for (const ChainEnd& end : chains.ends) ends += end.end.time_ns;
  EXPECT_NEAR(links, chains.waits_ns, 1e-6 * chains.waits_ns);
  EXPECT_NEAR(ends, chains.waits_ns, 1e-6 * chains.waits_ns);
}

TEST(ChainsTest, AWakersTimeIsDividedByWhatItDid) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Run(a, "Think", 20);
  program.Wait(a, profd::v1::REASON_LOCK, 8, By(b));
  program.Wait(a, profd::v1::REASON_NET, 2, ByInterrupt("[network]"));
  program.Run(b, "Compress", 6);
  program.Wait(b, profd::v1::REASON_FSYNC, 18, ByInterrupt("[block]"));
  program.Do(b, profd::v1::REASON_RUNQUEUE, "", 6);
  const Chains chains = Follow(program, a);
  EXPECT_NEAR(chains.waits_ns, 10 * kS, 1);
  ExpectAddsUp(chains);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Compress"), 8 * 0.2, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kInterrupt, "W"), 2 + 8 * 0.6, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kRunQueue), 8 * 0.2, 1e-9);
  ASSERT_THAT(chains.links, SizeIs(2));
  const Link& lock = chains.links[0];
  EXPECT_EQ(lock.kind, LinkKind::kWait);
  EXPECT_EQ(lock.reason, profd::v1::REASON_LOCK);
  ASSERT_THAT(lock.next, SizeIs(1));
  EXPECT_EQ(lock.next[0].group, b);
  EXPECT_EQ(lock.next[0].function, "Wake");
  EXPECT_EQ(lock.next[0].next[0].reason, profd::v1::REASON_FSYNC);
}

// front waits for middle, middle for back, and back for front when it is done.
TEST(ChainsTest, AChainOfThreeWithACycle) {
  Program program;
  const uint32_t front = program.Add("front"), middle = program.Add("middle");
  const uint32_t back = program.Add("back");
  program.Wait(front, profd::v1::REASON_PIPE, 30, By(middle));
  program.Run(middle, "Chew", 10);
  program.Wait(middle, profd::v1::REASON_LOCK, 20, By(back));
  program.Run(back, "Grind", 5);
  State& nap = program.Wait(back, profd::v1::REASON_SLEEP, 15, ByInterrupt("[timer]"));
  nap.idle = true;
  program.Wait(back, profd::v1::REASON_LOCK, 10, By(front));
  const Chains chains = Follow(program, front);
  ExpectAddsUp(chains);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Chew"), 10, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Grind"), 5, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kInterrupt), 15, 1e-9);
  ASSERT_THAT(chains.cycles, SizeIs(1));
  EXPECT_EQ(chains.cycles[0].waker, back);
  EXPECT_EQ(chains.cycles[0].waiter, front);
  EXPECT_NEAR(chains.cycles[0].time_ns, 10 * kS, 1);
}

// A waker that waits for work most of the time works while somebody waits for it.
TEST(ChainsTest, WaitsForWorkExplainOnlyWhatNothingElseCan) {
  Program program;
  const uint32_t a = program.Add("a"), server = program.Add("server");
  State& wait = program.Wait(a, profd::v1::REASON_PIPE, 3, By(server));
  program.Run(server, "Serve", 4);
  State& poll = program.Wait(server, profd::v1::REASON_POLL, 26, ByInterrupt("[network]"));
  poll.idle = poll.for_work = true;
  Chains chains = Follow(program, a);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Serve"), 3, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kInterrupt), 0, 1e-9);
  // It is waited for longer than it works: it must have waited, too.
  wait.time_ns = 20 * kS;
  chains = Follow(program, a);
  ExpectAddsUp(chains);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Serve"), 4, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kInterrupt), 16, 1e-9);
}

TEST(ChainsTest, WhatNothingExplainsIsUnknown) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Wait(a, profd::v1::REASON_LOCK, 20, By(b));
  program.Wait(a, profd::v1::REASON_NET, 4, ByNobody());
  program.Run(b, "Work", 5);
  const Chains chains = Follow(program, a);
  ExpectAddsUp(chains);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Work"), 5, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kUnexplained), 15, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kUnknown), 4, 1e-9);
}

// What a lock's holder does with the lock is what it does in the function that releases it.
TEST(ChainsTest, TheFunctionThatWakesComesFirst) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  State& wait = program.Wait(a, profd::v1::REASON_LOCK, 4, By(b, "Commit"));
  program.Run(b, "Elsewhere", 20);
  program.Do(b, profd::v1::REASON_FSYNC, "Commit", 6, ByInterrupt("[block]")).stack =
      program.Inside("Commit");
  Chains chains = Follow(program, a);
  EXPECT_NEAR(Ends(chains, LinkKind::kInterrupt, "Commit"), 4, 1e-9);
  wait.time_ns = 10 * kS;
  chains = Follow(program, a);
  ExpectAddsUp(chains);
  EXPECT_NEAR(Ends(chains, LinkKind::kInterrupt, "Commit"), 6, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Elsewhere"), 4, 1e-9);
}

// Time outside of the functions that wake is divided between the waits that they ended.
TEST(ChainsTest, TwoFunctionsShareTheTimeOfTheirThread) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Wait(a, profd::v1::REASON_LOCK, 9, By(b, "First"));
  program.Wait(a, profd::v1::REASON_LOCK, 3, By(b, "Second"));
  program.Run(b, "Work", 8);
  State& park = program.Wait(b, profd::v1::REASON_LOCK, 22, ByInterrupt("[network]"));
  park.idle = park.for_work = true;
  const Chains chains = Follow(program, a);
  ExpectAddsUp(chains);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Work"), 8, 1e-9);
  EXPECT_NEAR(Ends(chains, LinkKind::kInterrupt), 4, 1e-9);
}

// Threads of one group that wait for each other: whoever holds the lock does not wait for it.
TEST(ChainsTest, AConvoyEndsWithWhatItsHoldersDo) {
  Program program;
  const uint32_t workers = program.Add("worker", 4);
  program.Wait(workers, profd::v1::REASON_LOCK, 90, By(workers, "Put"));
  program.Run(workers, "Put", 24).stack = program.Inside("Put");
  program.Run(workers, "Prepare", 6);
  const Chains chains = Follow(program, workers);
  ExpectAddsUp(chains);
  // Each waits 22.5 s; there are 24 s of holding the lock.
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu, "Put"), 90, 1e-9);
  ASSERT_THAT(chains.cycles, SizeIs(1));
}

TEST(ChainsTest, StopsAtItsDepthAndAsksForReasons) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b"), c = program.Add("c");
  program.Wait(a, profd::v1::REASON_LOCK, 10, By(b));
  program.Wait(a, profd::v1::REASON_PIPE, 5, By(c));
  program.Wait(b, profd::v1::REASON_LOCK, 30, By(c));
  program.Run(c, "Work", 30);
  ChainOptions options;
  options.reasons = {profd::v1::REASON_LOCK};
  EXPECT_NEAR(Ends(Follow(program, a, options), LinkKind::kOnCpu, "Work"), 10, 1e-9);
  options.depth = 1;
  const Chains chains = Follow(program, a, options);
  ExpectAddsUp(chains);
  EXPECT_NEAR(chains.waits_ns, 10 * kS, 1);
  EXPECT_NEAR(Ends(chains, LinkKind::kOnCpu), 0, 1e-9);
  // The waker that is not followed is the second one.
  ASSERT_THAT(chains.ends, SizeIs(1));
  EXPECT_EQ(chains.ends[0].end.kind, LinkKind::kNotFollowed);
  EXPECT_EQ(chains.ends[0].end.group, c);
}

TEST(ChainsTest, SmallPartsArePutTogether) {
  Program program;
  const uint32_t a = program.Add("a");
  program.Wait(a, profd::v1::REASON_LOCK, 10, ByNobody());
  for (int i = 0; i < 100; i++) {
    program.Do(a, profd::v1::REASON_LOCK, "f" + std::to_string(i), 0.001, ByNobody());
  }
  const Chains chains = Follow(program, a);
  ExpectAddsUp(chains);
  ASSERT_THAT(chains.links, SizeIs(2));
  EXPECT_EQ(chains.links[1].kind, LinkKind::kSmall);
  EXPECT_NEAR(chains.links[1].time_ns, 0.1 * kS, 1);
}

// The stated error against the deviations of runs whose samples are drawn.
TEST(ChainsTest, ErrorsAreCarriedThrough) {
  std::mt19937_64 random(7);
  constexpr int kRuns = 1000;
  const auto run = [&](double wait, double work, double fsync, double error, double poll) {
    const auto drawn = [&](double value) {
      return error > 0 ? std::normal_distribution<>(value, error)(random) : value;
    };
    Program program;
    const uint32_t a = program.Add("a"), b = program.Add("b");
    const double variance = 0.1 * kS * 0.1 * kS;
    program.Wait(a, profd::v1::REASON_LOCK, drawn(wait), By(b)).variance = variance;
    program.Run(b, "Work", drawn(work)).variance = variance;
    program.Wait(b, profd::v1::REASON_FSYNC, drawn(fsync), ByInterrupt("[block]")).variance =
        variance;
    State& idle = program.Wait(b, profd::v1::REASON_POLL, poll, ByInterrupt("[network]"));
    idle.idle = idle.for_work = true;
    return Follow(program, a);
  };
  for (const double wait : {6.0, 20.0}) {  // less, and more than what the waker does
    const Chains truth = run(wait, 4, 8, 0, 30);
    for (const ChainEnd& end : truth.ends) {
      double squares = 0;
      for (int i = 0; i < kRuns; i++) {
        for (const ChainEnd& other : run(wait, 4, 8, 0.1, 30).ends) {
          if (other.end.kind != end.end.kind || other.wait.reason != end.wait.reason) continue;
          const double deviation = other.end.time_ns - end.end.time_ns;
          squares += deviation * deviation;
        }
      }
      // Errors of parts of one wait are not independent: never stated too small.
      const double measured = std::sqrt(squares / kRuns);
      EXPECT_GT(end.error_ns, 0.9 * measured) << wait << " " << static_cast<int>(end.end.kind);
      EXPECT_LT(end.error_ns, 2.0 * measured) << wait << " " << static_cast<int>(end.end.kind);
    }
  }
}

// Whatever the groups do, every sum holds.
TEST(ChainsTest, RandomProgramsAddUp) {
  std::mt19937 random(11);
  for (int i = 0; i < 100; i++) {
    const Program program = DrawProgram(random);
    const auto groups = static_cast<uint32_t>(program.activity().groups.size());
    for (uint32_t g = 0; g < groups; g++) ExpectAddsUp(Follow(program, g));
  }
}

using FrameSpec = AnswerWriter::FrameSpec;

FrameSpec App(const std::string& name) { return {name, "reth", profd::v1::FRAME_KIND_APPLICATION}; }
FrameSpec Kernel(const std::string& name) {
  return {name, "[kernel]", profd::v1::FRAME_KIND_KERNEL};
}
FrameSpec Made(const std::string& name) { return {name, "", profd::v1::FRAME_KIND_SYNTHETIC}; }

// A waiter's stack with its waker's, as the daemon writes it.
std::vector<FrameSpec> Woken(std::vector<FrameSpec> waker, const std::vector<FrameSpec>& waiter) {
  waker.push_back(Made("--"));
  waker.insert(waker.end(), waiter.begin(), waiter.end());
  return waker;
}

// Two workers wait for a lock that one thread holds for an fsync, for computing and for want of a
// CPU; they are woken by a program that is not watched, too.
AnswerWriter LockedAnswer() {
  constexpr int64_t kSecond = 1'000'000'000, kMs = 1'000'000;
  AnswerWriter answer;
  const std::vector<FrameSpec> get = {Kernel("futex_wait"), App("storage::Cache::get"),
                                      App("worker::run")};
  const std::vector<FrameSpec> release = {Made("reth/persistence"), App("persistence::run"),
                                          App("storage::flush"), Kernel("futex_wake")};
  for (int i = 1; i <= 2; i++) {
    const uint32_t worker = answer.AddThread(4242, 4242 + i, "reth", "worker-" + std::to_string(i),
                                             60 * kSecond, 30 * kSecond);
    answer.AddSample(worker, profd::v1::REASON_ON_CPU, {App("worker::run")}, 30 * kSecond, 0);
    answer.AddSample(worker, profd::v1::REASON_LOCK, Woken(release, get), 20 * kSecond, 300 * kMs);
    answer.AddSample(worker, profd::v1::REASON_LOCK, Woken({Made("[waker unknown]")}, get),
                     2 * kSecond, 100 * kMs);
    answer.AddSample(worker, profd::v1::REASON_RUNQUEUE, Woken({Made("[runqueue]")}, get),
                     3 * kSecond, 50 * kMs);
    answer.AddSample(worker, profd::v1::REASON_PIPE,
                     Woken({Made("cat"), Kernel("vfs_write"), Kernel("pipe_write")},
                           {Kernel("pipe_read"), App("worker::read")}),
                     kSecond, 80 * kMs);
    answer.AddSample(worker, profd::v1::REASON_SLEEP,
                     Woken({Made("[timer]"), Kernel("hrtimer_wakeup")},
                           {Kernel("hrtimer_nanosleep"), App("worker::nap")}),
                     4 * kSecond, 90 * kMs);
  }
  const uint32_t persistence =
      answer.AddThread(4242, 4250, "reth", "persistence", 60 * kSecond, 6 * kSecond);
  answer.AddSample(persistence, profd::v1::REASON_ON_CPU,
                   {App("compress"), App("storage::flush"), App("persistence::run")}, 6 * kSecond,
                   200 * kMs);
  answer.AddSample(persistence, profd::v1::REASON_FSYNC,
                   Woken({Made("[block]"), Kernel("blk_done")},
                         {Kernel("ext4_sync_file"), App("db::commit"), App("storage::flush"),
                          App("persistence::run")}),
                   18 * kSecond, 200 * kMs);
  answer.AddSample(persistence, profd::v1::REASON_RUNQUEUE,
                   Woken({Made("[runqueue]")},
                         {App("compress"), App("storage::flush"), App("persistence::run")}),
                   6 * kSecond, 100 * kMs);
  answer.AddSample(persistence, profd::v1::REASON_POLL,
                   Woken({Made("reth/worker-1"), App("worker::run"), Kernel("eventfd_write")},
                         {Kernel("ep_poll"), App("persistence::run")}),
                   30 * kSecond, 200 * kMs);
  return answer;
}

Answer BuildAnswer(const profd::v1::Profile& message) {
  ProfileBuilder builder({"wakers", "cpu"});
  const absl::Status status = builder.Add(message);
  EXPECT_TRUE(status.ok()) << status;
  absl::StatusOr<Answer> answer = builder.Finish();
  EXPECT_TRUE(answer.ok()) << answer.status();
  return *std::move(answer);
}

WhyReport Report(const Answer& answer, const std::string& thread = "") {
  WhyReport report = {.wakers = answer.profiles.data(), .cpu = &answer.profiles[1]};
  std::vector<Root> roots;
  report.activity = ReadActivity(
      *report.wakers, *report.cpu,
      [&](const Thread& t) { return t.name.find(thread) != std::string::npos; }, &roots);
  report.chains.push_back(FollowChains(report.activity, roots.front(), {}));
  return report;
}

TEST(WhyTest, ReadsWhoWokeWhom) {
  const Answer answer = BuildAnswer(WakersAndCpu(LockedAnswer()));
  std::vector<Root> roots;
  const Activity activity = ReadActivity(
      answer.profiles[0], answer.profiles[1], [](const Thread& t) { return t.tid == 4243; },
      &roots);
  ASSERT_THAT(roots, SizeIs(1));
  const ThreadGroup& workers = activity.groups[roots[0].whole];
  const ThreadGroup& part = activity.groups[roots[0].part];
  EXPECT_EQ(workers.threads, 2u);
  EXPECT_EQ(part.threads, 1u);
  EXPECT_NEAR(WaitingNs(workers), 2 * 26 * kS, 1);
  EXPECT_NEAR(WaitingNs(part), 26 * kS, 1);
  std::vector<WakerKind> kinds;
  for (const State& state : part.states) {
    kinds.push_back(state.waker.kind);
    if (state.waker.kind == WakerKind::kGroup) {
      EXPECT_EQ(activity.groups[state.waker.group].name, "persistence");
      EXPECT_EQ(state.waker.function, "storage::flush");
      EXPECT_EQ(state.function, "storage::Cache::get");
    }
    if (state.waker.kind == WakerKind::kOutside) {
      EXPECT_EQ(state.waker.name, "cat");
      EXPECT_EQ(state.waker.function, "pipe_write");
    }
  }
  EXPECT_THAT(kinds, testing::UnorderedElementsAre(WakerKind::kNone, WakerKind::kNone,
                                                   WakerKind::kGroup, WakerKind::kUnknown,
                                                   WakerKind::kOutside, WakerKind::kInterrupt));
}

TEST(WhyTest, TextMatchesGolden) {
  const Answer answer = BuildAnswer(WakersAndCpu(LockedAnswer()));
  ExpectGolden(RenderWhyText(Report(answer), false), "why.txt");
}

TEST(WhyTest, SaysWhatIsMissing) {
  AnswerWriter writer = LockedAnswer();
  profd::v1::Profile message = WakersAndCpu(writer);
  message.mutable_sample_types(0)->set_watched_ns(0);
  message.mutable_sample_types(1)->set_watched_ns(12'000'000'000);
  const Answer answer = BuildAnswer(message);
  const std::string text = RenderWhyText(Report(answer), false);
  EXPECT_THAT(text, HasSubstr("Note: wakers were not sampled"));
  EXPECT_THAT(text, HasSubstr("Note: running code was sampled for only 12.0 s"));
}

TEST(WhyTest, JsonHasTheWholeTree) {
  const Answer answer = BuildAnswer(WakersAndCpu(LockedAnswer()));
  const auto json = nlohmann::json::parse(RenderWhyJson(Report(answer, "worker")));
  EXPECT_EQ(json["format"], "profd-why");
  ASSERT_THAT(json["chains"], SizeIs(1));
  const auto& chain = json["chains"][0];
  EXPECT_EQ(chain["thread"], "worker");
  EXPECT_EQ(chain["waits_ns"], 52'000'000'000);
  EXPECT_EQ(chain["next"][0]["reason"], "lock");
  EXPECT_EQ(chain["next"][0]["next"][0]["thread"], "persistence");
  EXPECT_EQ(chain["next"][0]["next"][0]["next"][0]["function"], "db::commit");
  EXPECT_EQ(chain["ends"][0]["kind"], "interrupt");
  EXPECT_EQ(chain["ends"][0]["wait"]["function"], "db::commit");
  EXPECT_EQ(chain["cycles"][0]["waits_for_thread"], "worker");
  EXPECT_EQ(chain["ends"][0]["time_ns"], 24'000'000'000);
  const auto& delay = chain["scheduling_delay"];
  EXPECT_EQ(delay["time_ns"], 14'000'000'000);
  EXPECT_EQ(delay["own_ns"], 6'000'000'000);
  EXPECT_EQ(delay["own_error_ns"], 70'710'678);
  ASSERT_THAT(delay["inherited"], SizeIs(1));
  EXPECT_EQ(delay["inherited"][0]["wakers"], 1);
  EXPECT_EQ(delay["inherited"][0]["time_ns"], 8'000'000'000);
  ASSERT_THAT(delay["queued"], SizeIs(1));
  EXPECT_EQ(delay["queued"][0]["process"], "reth");
  EXPECT_EQ(delay["queued"][0]["thread"], "persistence");
  EXPECT_EQ(delay["queued"][0]["wakers"], 1);
  EXPECT_EQ(delay["queued"][0]["time_ns"], 8'000'000'000);
  EXPECT_EQ(delay["queued"][0]["error_ns"], delay["inherited"][0]["error_ns"]);
  EXPECT_EQ(delay["unresolved_ns"], 6'000'000'000);
  EXPECT_EQ(delay["rest_ns"], 32'000'000'000);
}

TEST(WhyTest, NobodyWaits) {
  AnswerWriter writer;
  writer.AddThread(1, 1, "a", "a", 60'000'000'000, 60'000'000'000);
  const Answer answer = BuildAnswer(WakersAndCpu(writer));
  const std::string text = RenderWhyText(Report(answer), false);
  EXPECT_THAT(text, HasSubstr("waits 0.0% of its time"));
  EXPECT_THAT(Report(answer).chains[0].ends, IsEmpty());
}

}  // namespace
}  // namespace profctl
