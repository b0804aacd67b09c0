// The budget is kept, and what was given up is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

class GovernorTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  void Start(const std::vector<std::string>& scenario, std::vector<std::string> arguments) {
    absl::StatusOr<std::unique_ptr<Target>> target = Target::Start(scenario);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
    StartDaemon(std::to_string(target_->pid()), std::move(arguments));
  }
  void StartDaemon(const std::string& selector, std::vector<std::string> arguments) {
    daemon_.reset();
    absl::StatusOr<std::unique_ptr<Daemon>> daemon =
        Daemon::Start({.targets = {selector}, .arguments = std::move(arguments)});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }

  Answer Window(int64_t begin_wall_ns, int64_t end_wall_ns) {
    v1::FetchRequest request;
    request.set_begin_ns(begin_wall_ns);
    request.set_end_ns(end_wall_ns);
    absl::StatusOr<Answer> answer = daemon_->Fetch(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : Answer{};
  }

  v1::GovernedSource Source(const std::string& name) {
    const auto status = daemon_->Status();
    EXPECT_TRUE(status.ok()) << status.status();
    if (status.ok()) {
      for (const v1::GovernedSource& source : status->governor().sources()) {
        if (source.name() == name) return source;
      }
    }
    ADD_FAILURE() << "no source " << name;
    return {};
  }

  std::unique_ptr<Target> target_;
  std::unique_ptr<Daemon> daemon_;
};

double InPathShare(const Answer& answer) {
  const v1::Cost& cost = answer.trailer.cost();
  return static_cast<double>(cost.in_path_ns()) / static_cast<double>(cost.duration_ns());
}

// From 500 switches a second to as many as one CPU does, from one moment to the next.
TEST_F(GovernorTest, BudgetHoldsTwoSecondsAfterTheLoadGrows) {
  constexpr int64_t kQuietMs = 4'000;
  constexpr int64_t kLoudMs = 6'000;
  constexpr double kBudget = 0.005;
  ASSERT_NO_FATAL_FAILURE(Start({"surge", std::to_string(kQuietMs), std::to_string(kLoudMs)},
                                {"--budget", "0.5%", "--daemon-budget", "off"}));
  ASSERT_TRUE(target_->Go());
  const absl::StatusOr<Report> report = target_->AwaitReport();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->Named("lead").size(), 1U);
  const SelfMeasured& lead = *report->Named("lead")[0];
  int64_t loud_begin = 0, loud_end = 0;
  for (const SelfMeasured::Wait& wait : lead.waits) {
    if (wait.path != 1) continue;
    loud_begin = wait.begin_ns + report->wall_offset_ns;
    loud_end = wait.end_ns + report->wall_offset_ns;
  }
  ASSERT_GT(loud_end, loud_begin + 4 * kSecond);

  const Answer quiet = Window(loud_begin - 2 * kSecond, loud_begin);
  EXPECT_LT(InPathShare(quiet), kBudget);
  EXPECT_EQ(quiet.header.switch_ns(), quiet.header.end_ns() - quiet.header.begin_ns());

  const Answer surge = Window(loud_begin, loud_begin + 2 * kSecond);
  const Answer after = Window(loud_begin + 2 * kSecond, loud_end);
  const auto rate = [](const Answer& answer) {
    return static_cast<double>(answer.trailer.cost().switches()) /
           static_cast<double>(answer.trailer.cost().duration_ns());
  };
  ASSERT_GT(rate(after), 100 * rate(quiet)) << "the load did not grow enough to show anything";
  EXPECT_LT(InPathShare(surge), 2.5 * kBudget) << "it took too long to see";
  EXPECT_LE(InPathShare(after), kBudget);
  EXPECT_LT(after.header.switch_ns(), after.header.end_ns() - after.header.begin_ns());

  const auto source = Source("switch");
  EXPECT_GT(source.level(), 0U);
  EXPECT_TRUE(source.in_path());
  EXPECT_THAT(source.given_up(), HasSubstr("tick's shares"));
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok());
  EXPECT_DOUBLE_EQ(status->governor().target_budget(), kBudget);
  EXPECT_EQ(status->governor().daemon_budget(), 0) << "none";
  for (const v1::LayerStatus& layer : status->layers()) {
    EXPECT_EQ(layer.on(), layer.name() != "switch");
    EXPECT_EQ(layer.note().empty(), layer.on()) << layer.DebugString();
  }

  // The whole life of both threads adds up over the time with the layer and the time without.
  const absl::StatusOr<Answer> whole = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const char* name : {"lead", "echo"}) {
    const SelfMeasured& self = *report->Named(name)[0];
    const v1::Thread* thread = whole->FindThread(self.tid);
    ASSERT_NE(thread, nullptr);
    EXPECT_TRUE(AddsUp(*thread));
    EXPECT_GT(thread->estimated_ns(), 0);
    ExpectWholeLife(*thread, self);
  }
  EXPECT_EQ(daemon_->Stop(), 0);
}

TEST_F(GovernorTest, WhatWasGivenUpComesBackWhenTheLoadIsGone) {
  ASSERT_NO_FATAL_FAILURE(
      Start({"surge", "500", "2500"}, {"--budget", "0.5%", "--daemon-budget", "off"}));
  ASSERT_TRUE(target_->Go());
  ASSERT_TRUE(target_->AwaitReport().ok());
  EXPECT_GT(Source("switch").level(), 0U);
  bool back = false;
  for (const int64_t deadline = MonotonicNs() + 30 * kSecond; !back && MonotonicNs() < deadline;) {
    std::this_thread::sleep_for(milliseconds(200));
    back = Source("switch").level() == 0;
  }
  EXPECT_TRUE(back);
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->governor().changes(), 2U) << status->governor().DebugString();
}

TEST_F(GovernorTest, PausedItCostsNothingAndForgetsNothing) {
  constexpr int64_t kRunMs = 6'000;
  ASSERT_NO_FATAL_FAILURE(Start({"surge", std::to_string(kRunMs / 2), std::to_string(kRunMs / 2)},
                                {"--budget", "off", "--daemon-budget", "off"}));
  ASSERT_TRUE(target_->Go());
  const auto set_paused = [&](bool paused) {
    ASSERT_EQ(kill(daemon_->process().pid(), paused ? SIGUSR1 : SIGUSR2), 0);
    bool done = false;
    for (int i = 0; !done && i < 200; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      const auto status = daemon_->Status();
      ASSERT_TRUE(status.ok()) << status.status();
      done = status->paused() == paused;
    }
    ASSERT_TRUE(done);
  };
  const auto cost = [&] {
    const auto status = daemon_->Status();
    EXPECT_TRUE(status.ok());
    return status->cost();
  };
  std::this_thread::sleep_for(milliseconds(1'000));
  ASSERT_NO_FATAL_FAILURE(set_paused(true));
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok());
  for (const v1::LayerStatus& layer : status->layers()) {
    EXPECT_EQ(layer.on(), layer.name() == "books") << layer.DebugString();
    if (!layer.on()) {
      EXPECT_THAT(layer.note(), HasSubstr("SIGUSR2"));
    }
  }
  const v1::Cost before = cost();
  std::this_thread::sleep_for(milliseconds(3'000));  // the switches begin in here
  // A fetch brings the cost up to date, and works.
  const absl::StatusOr<Answer> meanwhile = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(meanwhile.ok()) << meanwhile.status();
  const v1::Cost after = cost();
  EXPECT_EQ(after.in_path_ns(), before.in_path_ns());
  EXPECT_EQ(after.tick_cpu_ns(), before.tick_cpu_ns());
  ASSERT_NO_FATAL_FAILURE(set_paused(false));
  const absl::StatusOr<Report> report = target_->AwaitReport();
  ASSERT_TRUE(report.ok()) << report.status();

  const absl::StatusOr<Answer> whole = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(whole.ok()) << whole.status();
  const v1::Header& header = whole->header;
  const int64_t length = header.end_ns() - header.begin_ns();
  EXPECT_GT(header.tick_ns(), 0);
  EXPECT_LT(header.tick_ns(), length - 2 * kSecond) << "the pause is no time of the tick's";
  EXPECT_LT(header.switch_ns(), length - 2 * kSecond);
  EXPECT_LT(whole->trailer.ticks_missed(), whole->trailer.ticks() / 4) << "a pause misses none";
  EXPECT_GT(cost().in_path_ns(), after.in_path_ns()) << "it did not go on";
  // The kernel's books went on: every thread adds up, over the pause as well.
  for (const char* name : {"lead", "echo"}) {
    const SelfMeasured& self = *report->Named(name)[0];
    const v1::Thread* thread = whole->FindThread(self.tid);
    ASSERT_NE(thread, nullptr);
    EXPECT_TRUE(AddsUp(*thread));
    ExpectWholeLife(*thread, self);
  }
  EXPECT_EQ(daemon_->Stop(), 0);
}

// Visiting idle threads less often is given up before the tick is slowed.
TEST_F(GovernorTest, DaemonBudgetSlowsTheTick) {
  ASSERT_NO_FATAL_FAILURE(
      Start({"surge", "500", "5000"}, {"--budget", "off", "--daemon-budget", "0.1%"}));
  ASSERT_TRUE(target_->Go());
  ASSERT_TRUE(target_->AwaitReport().ok());
  const auto source = Source("tick");
  EXPECT_GE(source.level(), 2U);
  EXPECT_FALSE(source.in_path());
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok());
  EXPECT_GT(status->tick_interval_ns(), 10'000'000);
  EXPECT_THAT(source.given_up(), HasSubstr("instead of every 10 ms"));
}

}  // namespace
}  // namespace profd::e2e
