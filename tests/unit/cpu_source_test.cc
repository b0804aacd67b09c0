// The clocks of CPUs, what they cost, and what their samples stand for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "daemon/base/cpu_list.h"
#include "daemon/collect/cost_table.h"
#include "daemon/source/cpu.h"
#include "daemon/source/cpu_clocks.h"
#include "daemon/source/cpu_knob.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/golden.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMs;

TEST(CpuListTest, ReadsWhatTheKernelWrites) {
  EXPECT_THAT(*ParseCpuList("0-3,8,10-11\n", 64), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(*ParseCpuList("0\n", 1), ElementsAre(0));
  EXPECT_THAT(*ParseCpuList("\n", 64), IsEmpty());
  EXPECT_THAT(*ParseCpuList("0-127", 128), SizeIs(128));
}

TEST(CpuListTest, RefusesEverythingElse) {
  for (const char* text : {"a", "-1", "1-", "3-2", "0,0", "2,1", "0-64", "0,,1", "+1", " 1",
                           "0-1-2", "99999999999", "0x1", "0;1"}) {
    EXPECT_FALSE(ParseCpuList(text, 64).ok()) << text;
  }
}

TEST(CpuKnobTest, CostIsSamplesTimesTheirPrice) {
  CpuKnob knob(10 * kMs);
  EXPECT_EQ(knob.payer(), Payer::kTarget);
  EXPECT_EQ(knob.CostAt(0), 0) << "nobody ran yet";
  // Half a CPU is used: 50 samples a second of 4 us, and the way in.
  const profd_cpu_cost cost = {.samples = 100, .ns = 400'000};
  knob.Learn({.seconds = 2, .cpu_ns = kSecond, .cost = cost, .interrupt_ns = 1'000});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 50 * 5e-6);
  EXPECT_DOUBLE_EQ(CpuKnob::InPathNs(cost, 1'000), 500'000);
  for (int level = 1; level < knob.levels(); level++) {
    EXPECT_LT(knob.CostAt(level), knob.CostAt(level - 1));
    EXPECT_THAT(knob.GivenUpAt(level), Not(IsEmpty()));
  }
  EXPECT_THAT(knob.GivenUpAt(0), IsEmpty());
  EXPECT_EQ(knob.sampled_levels(), knob.levels() - 1);
  EXPECT_EQ(knob.IntervalAt(knob.levels() - 1), 0);
  // While there are no samples the kernel's books tell the rate.
  knob.Learn({.seconds = 1, .cpu_ns = 2 * kSecond, .cost = cost, .interrupt_ns = 1'000});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 200 * 5e-6);
  knob.Learn({.seconds = 0, .cpu_ns = 0, .cost = cost, .interrupt_ns = 1'000});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 200 * 5e-6) << "a pause is no load";
}

class CpuClocksTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  CpuClocks clocks_{&kernel_, &clock_, 1};

  void StepOnce() {
    clock_.MoveTo(clocks_.next_ns());
    ASSERT_TRUE(clocks_.Step().ok());
  }
};

TEST_F(CpuClocksTest, PeriodsAreDrawnAroundTheirMean) {
  ASSERT_TRUE(clocks_.SetInterval(10 * kMs).ok());
  std::set<int64_t> seen;
  for (int i = 0; i < 100; i++) {
    EXPECT_THAT(kernel_.cpu_periods, SizeIs(2));
    for (const auto& [cpu, period] : kernel_.cpu_periods) {
      EXPECT_GE(period, 7'500'000);
      EXPECT_LE(period, 12'500'000);
      seen.insert(period);
    }
    const int64_t now = clock_.MonotonicNs();
    EXPECT_GE(clocks_.next_ns(), now + kSecond / 2);
    EXPECT_LE(clocks_.next_ns(), now + kSecond * 3 / 2);
    // Not before it is due.
    ASSERT_TRUE(clocks_.Step().ok());
    StepOnce();
  }
  EXPECT_THAT(seen, SizeIs(200));
}

TEST_F(CpuClocksTest, FollowsCpusThatComeAndGo) {
  ASSERT_TRUE(clocks_.SetInterval(10 * kMs).ok());
  // More than fit in a word.
  kernel_.online_cpus.clear();
  for (uint32_t cpu = 1; cpu < 200; cpu++) kernel_.online_cpus.push_back(cpu);
  StepOnce();
  EXPECT_THAT(kernel_.cpu_periods, SizeIs(199));
  EXPECT_FALSE(kernel_.cpu_periods.contains(0));
  EXPECT_EQ(clocks_.cpus(), 199U);
  kernel_.online_cpus = {0, 199};
  StepOnce();
  EXPECT_THAT(kernel_.cpu_periods,
              UnorderedElementsAre(Pair(0, testing::_), Pair(199, testing::_)));
}

TEST_F(CpuClocksTest, CpuThatGoesOfflineMeanwhileIsNoError) {
  kernel_.set_cpu_clock = {.times = 1, .status = absl::NotFoundError("no such device")};
  EXPECT_TRUE(clocks_.SetInterval(10 * kMs).ok());
  EXPECT_EQ(clocks_.cpus(), 1U);
  StepOnce();
  EXPECT_EQ(clocks_.cpus(), 2U);
}

TEST_F(CpuClocksTest, StopsAndSaysWhatFails) {
  ASSERT_TRUE(clocks_.SetInterval(10 * kMs).ok());
  ASSERT_TRUE(clocks_.SetInterval(0).ok());
  EXPECT_THAT(kernel_.cpu_periods, IsEmpty());
  EXPECT_EQ(clocks_.next_ns(), INT64_MAX);
  kernel_.set_cpu_clock = {.times = 2, .status = absl::PermissionDeniedError("not permitted")};
  EXPECT_TRUE(absl::IsPermissionDenied(clocks_.SetInterval(10 * kMs)));
  EXPECT_EQ(clocks_.cpus(), 0U);
  // It is tried again.
  StepOnce();
  EXPECT_EQ(clocks_.cpus(), 2U);
}

// A CPU in virtual time whose program has the very period of the samples, and spends its first 30 %
// in one function.
class PeriodicCpu {
 public:
  static constexpr int64_t kPeriod = 10 * kMs;
  static constexpr int64_t kPart = 3 * kMs;

  explicit PeriodicCpu(uint64_t seed) : clocks_(&kernel_, &clock_, seed) {
    kernel_.online_cpus = {0};
  }

  // The weight of samples in that function as a share of all.
  double ShareSeen(int64_t ns) {
    EXPECT_TRUE(clocks_.SetInterval(kPeriod).ok());
    const int64_t begin = clock_.MonotonicNs();
    double part = 0, all = 0;
    int64_t next = begin + kernel_.cpu_periods[0];
    while (clock_.MonotonicNs() < begin + ns) {
      if (next <= clocks_.next_ns()) {
        clock_.MoveTo(next);
        const auto weight = static_cast<double>(kernel_.cpu_periods[0]);
        all += weight;
        if (next % kPeriod < kPart) part += weight;
      } else {
        clock_.MoveTo(clocks_.next_ns());
        EXPECT_TRUE(clocks_.Step().ok());
      }
      // A new period begins anew.
      next = clock_.MonotonicNs() + kernel_.cpu_periods[0];
    }
    return part / all;
  }

 private:
  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  CpuClocks clocks_;
};

TEST(CpuClocksPeriodicTest, ProgramsInStepWithTheClockAreSampledFairly) {
  constexpr int kRuns = 300;
  double sum = 0, squares = 0;
  for (int run = 0; run < kRuns; run++) {
    const double share = PeriodicCpu(static_cast<uint64_t>(run) + 1).ShareSeen(20 * kSecond);
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kRuns;
  const double deviation = std::sqrt(squares / kRuns - mean * mean);
  // A clock of a fixed period would see one of the two always: 0.46.
  EXPECT_LT(deviation, 0.05);
  EXPECT_NEAR(mean, 0.3, 4 * deviation / std::sqrt(kRuns));
}

class CpuSourceTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  SourceContext context_{.kernel = &kernel_, .clock = &clock_};
  ThreadSource threads_{context_, true};
  CpuSource source_{context_, &threads_, {.interval_ns = 10 * kMs}, 1};
};

TEST_F(CpuSourceTest, CountsAreSamplesOfItsKind) {
  ASSERT_TRUE(source_.Attach().ok());
  EXPECT_THAT(kernel_.cpu_periods, IsEmpty()) << "before there are targets";
  ASSERT_TRUE(source_.Apply().ok());
  profd_sample_key key{};
  key.thread_id = 7;
  key.stack = 9;
  key.sysno = -1;
  key.kind = PROFD_KIND_CPU;
  kernel_.cpu_counters = {{key, {.weight = 20 * kMs, .count = 2}}};
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_TRUE(delta.cpu_on);
  ASSERT_THAT(delta.samples, SizeIs(1));
  EXPECT_EQ(delta.samples[0].key.kind, Kind::kCpu);
  EXPECT_EQ(delta.samples[0].key.stack, StackId{9});
  EXPECT_EQ(delta.samples[0].weight, 20 * kMs);
  EXPECT_EQ(delta.samples[0].ticks, 2);
  EXPECT_TRUE(source_.Status()->on);
  profctl::ExpectGolden(source_.Status()->note + "\n", "cpu-note.txt");
}

TEST_F(CpuSourceTest, DetachedItCostsNothingAndSaysSo) {
  ASSERT_TRUE(source_.Attach().ok());
  ASSERT_TRUE(source_.Apply().ok());
  source_.Detach();
  EXPECT_THAT(kernel_.cpu_periods, IsEmpty());
  EXPECT_FALSE(source_.Status()->on);
  EXPECT_EQ(source_.Status()->note, kPausedNote);
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_FALSE(delta.cpu_on);
  ASSERT_TRUE(source_.Apply().ok());
  EXPECT_THAT(kernel_.cpu_periods, SizeIs(2));
}

TEST_F(CpuSourceTest, WithoutPermissionItIsLostAndSaysWhy) {
  kernel_.set_cpu_clock = {.times = 2, .status = absl::PermissionDeniedError("needs CAP_PERFMON")};
  EXPECT_TRUE(absl::IsPermissionDenied(source_.Attach()));
}

TEST_F(CpuSourceTest, FailureIsSaidUntilItIsOver) {
  ASSERT_TRUE(source_.Attach().ok());
  const absl::Status failure = absl::InternalError("out of order");
  kernel_.set_cpu_clock = {.times = 4, .status = failure};
  EXPECT_FALSE(source_.Apply().ok());
  EXPECT_TRUE(source_.Apply().ok()) << "it fails once";
  EXPECT_EQ(source_.Status()->note, failure.message());
  for (int step = 0; step < 2; step++) {
    clock_.MoveTo(source_.next_ns());
    EXPECT_EQ(source_.Status()->on, step > 1);
    source_.Step();
  }
  EXPECT_TRUE(source_.Status()->on);
  profctl::ExpectGolden(source_.Status()->note + "\n", "cpu-note.txt");
}

TEST_F(CpuSourceTest, CostIsInThePath) {
  kernel_.cpu_cost = {.samples = 10, .ns = 40'000};
  ASSERT_TRUE(source_.Attach().ok());
  std::vector<CostRow> rows;
  source_.Costs(rows);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].payer, Payer::kTarget);
  EXPECT_EQ(rows[0].ns, 50'000) << "10 interrupts of 1 us, and what was measured";
  const CollectorCost cost = SumCosts(rows);
  EXPECT_EQ(cost.cpu_in_path_ns, 50'000);
  EXPECT_EQ(cost.in_path_ns, 50'000);
  EXPECT_EQ(cost.cpu_samples, 10);
}

}  // namespace
}  // namespace profd
