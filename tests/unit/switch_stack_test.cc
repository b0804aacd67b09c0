// The source of stacks of context switches: its knob, and the estimate.
#include "daemon/source/switch_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "daemon/collect/cost_table.h"
#include "daemon/profile/estimator.h"
#include "daemon/source/switch_stack_knob.h"
#include "daemon/source/thread.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(SwitchStackKnobTest, AimsAtSoManyStacksWhateverTheRate) {
  SwitchStackKnob knob;
  knob.SetCpus(2);
  EXPECT_EQ(knob.payer(), Payer::kTarget);
  EXPECT_EQ(knob.CostAt(0), 0) << "nothing is known yet";
  EXPECT_EQ(knob.OneInAt(0), 1U);
  knob.Learn({.seconds = 2,
              .switches = 2 * 64'000,
              .cost = {.switches = 64'000, .samples = 64, .ns = 64 * 4'000}});
  // 64,000 switches a second on two CPUs, 32 stacks a second on each.
  EXPECT_EQ(knob.OneInAt(0), 1'024U) << "the next power of two";
  EXPECT_EQ(knob.OneInAt(1), 4'096U);
  EXPECT_EQ(knob.OneInAt(2), 16'384U);
  EXPECT_EQ(knob.OneInAt(3), 0U);
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 64'000 * 4'000.0 / 1'024 / 1e9);
  EXPECT_EQ(knob.CostAt(3), 0);
  for (int level = 1; level < knob.levels(); level++) {
    EXPECT_LT(knob.CostAt(level), knob.CostAt(level - 1));
    EXPECT_THAT(knob.GivenUpAt(level), Not(IsEmpty()));
  }
  EXPECT_EQ(knob.sampled_levels(), knob.levels() - 1);
  EXPECT_THAT(knob.GivenUpAt(0), IsEmpty());
  knob.Learn({.seconds = 0, .switches = 0, .cost = {}});
  EXPECT_EQ(knob.OneInAt(0), 1'024U) << "a pause is no load";
  knob.Learn({.seconds = 1, .switches = 10, .cost = {}});
  EXPECT_EQ(knob.OneInAt(0), 1U);
}

class SwitchStackSourceTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  SourceContext context_{.kernel = &kernel_, .clock = &clock_};
  ThreadSource threads_{context_, true};
  SwitchStackSource source_{context_, &threads_};
};

TEST_F(SwitchStackSourceTest, CountersAreSamplesOfItsKind) {
  ASSERT_TRUE(kernel_.SetSwitchLayer(true).ok());
  ASSERT_TRUE(source_.Attach().ok());
  EXPECT_FALSE(kernel_.switch_stacks_on()) << "before there are targets";
  ASSERT_TRUE(source_.Apply().ok());
  EXPECT_EQ(kernel_.switch_stack_one_in, 1U);
  profd_sample_key key{};
  key.thread_id = 7;
  key.stack = 9;
  key.arg0 = 16;
  key.sysno = -1;
  key.reason = PROFD_REASON_LOCK;
  key.kind = PROFD_KIND_SWITCH;
  kernel_.switch_stacks = {{key, {.weight = 32, .count = 2}}};
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_TRUE(delta.switch_stacks_on);
  ASSERT_THAT(delta.samples, SizeIs(1));
  EXPECT_EQ(delta.samples[0].key.kind, Kind::kSwitch);
  EXPECT_EQ(delta.samples[0].key.stack, StackId{9});
  EXPECT_EQ(delta.samples[0].key.reason, Reason::kLock);
  EXPECT_EQ(delta.samples[0].weight, 32);
  EXPECT_EQ(delta.samples[0].ticks, 2);
  EXPECT_TRUE(source_.Status()->on);
  // The program of the ledger takes it along.
  ASSERT_TRUE(kernel_.SetSwitchLayer(false).ok());
  EXPECT_FALSE(source_.Status()->on);
  EXPECT_EQ(source_.Status()->note, "the layer switch is off");
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_FALSE(delta.switch_stacks_on);
}

TEST_F(SwitchStackSourceTest, DetachedItCostsNothingAndSaysSo) {
  ASSERT_TRUE(kernel_.SetSwitchLayer(true).ok());
  ASSERT_TRUE(source_.Attach().ok());
  ASSERT_TRUE(source_.Apply().ok());
  source_.Detach();
  EXPECT_FALSE(kernel_.switch_stacks_on());
  EXPECT_FALSE(source_.Status()->on);
  EXPECT_EQ(source_.Status()->note, kPausedNote);
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_FALSE(delta.switch_stacks_on);
}

TEST_F(SwitchStackSourceTest, WhereTheKernelRefusesItIsLostAndSaysWhy) {
  kernel_.set_switch_stacks = {.times = 1, .status = absl::InternalError("no tail calls")};
  EXPECT_TRUE(absl::IsInternal(source_.Attach()));
}

TEST_F(SwitchStackSourceTest, CostIsInThePath) {
  kernel_.switch_stack_cost = {.switches = 1'000, .samples = 10, .ns = 40'000};
  ASSERT_TRUE(source_.Attach().ok());
  std::vector<CostRow> rows;
  source_.Costs(rows);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].payer, Payer::kTarget);
  const CollectorCost cost = SumCosts(rows);
  EXPECT_EQ(cost.switch_stack_in_path_ns, 40'000);
  EXPECT_EQ(cost.in_path_ns, cost.switch_stack_in_path_ns);
  EXPECT_EQ(cost.switch_stacks, 10);
}

constexpr ThreadId kThread{1};
constexpr StackId kQueue{101}, kRead{103}, kBurn{105};

Sample Switches(StackId stack, Reason reason, int64_t samples, uint64_t one_in) {
  return {.key = {.thread = kThread,
                  .stack = stack,
                  .argument = one_in,
                  .reason = reason,
                  .kind = Kind::kSwitch},
          .weight = samples * static_cast<int64_t>(one_in),
          .ticks = samples};
}

// Switches by reason as the ledger has them, and as the kernel's own account has them.
LedgerDelta Ledger(int64_t lock, int64_t pipe, int64_t preempted) {
  LedgerDelta ledger;
  ledger.waits[static_cast<size_t>(Reason::kLock)] = lock;
  ledger.waits[static_cast<size_t>(Reason::kPipe)] = pipe;
  ledger.waits[static_cast<size_t>(Reason::kRunQueue)] = preempted;
  ledger.voluntary_switches = lock + pipe;
  ledger.involuntary_switches = preempted;
  return ledger;
}

const EstimatedSample& Of(const std::vector<EstimatedSample>& estimates, StackId stack) {
  for (const EstimatedSample& s : estimates) {
    if (s.key.stack == stack) return s;
  }
  static const EstimatedSample kNone;
  ADD_FAILURE() << "no stack " << static_cast<uint64_t>(stack);
  return kNone;
}

TEST(EstimateSwitchesTest, WhereAllAreCountedThereIsNoError) {
  const std::vector<EstimatedSample> estimates =
      EstimateSwitches(kThread, Ledger(30, 10, 5),
                       std::vector<Sample>{Switches(kQueue, Reason::kLock, 30, 1),
                                           Switches(kRead, Reason::kPipe, 10, 1),
                                           Switches(kBurn, Reason::kRunQueue, 5, 1)});
  ASSERT_THAT(estimates, SizeIs(3));
  EXPECT_EQ(Of(estimates, kQueue).amount, 30);
  EXPECT_EQ(Of(estimates, kRead).amount, 10);
  EXPECT_EQ(Of(estimates, kBurn).amount, 5);
  for (const EstimatedSample& s : estimates) {
    EXPECT_EQ(s.error, 0);
    EXPECT_EQ(s.key.kind, Kind::kSwitch);
    EXPECT_EQ(s.key.argument, 0U);
  }
}

TEST(EstimateSwitchesTest, NumbersOfAReasonSumToTheLedgers) {
  const std::vector<EstimatedSample> estimates =
      EstimateSwitches(kThread, Ledger(1'000, 400, 0),
                       std::vector<Sample>{Switches(kQueue, Reason::kLock, 6, 64),
                                           Switches(kQueue, Reason::kLock, 1, 256),
                                           Switches(kRead, Reason::kLock, 5, 64)});
  // The weights are 640 and 320.
  EXPECT_EQ(Of(estimates, kQueue).amount, 666);
  EXPECT_EQ(Of(estimates, kQueue).ticks, 7);
  EXPECT_EQ(Of(estimates, kRead).amount, 334);
  EXPECT_GT(Of(estimates, kRead).error, 0);
  EXPECT_EQ(Of(estimates, StackId{}).amount, 400) << "no sample of the other reason";
  EXPECT_EQ(Of(estimates, StackId{}).key.kind, Kind::kSwitch);
}

TEST(EstimateSwitchesTest, WhileTheLedgerIsOffTheKernelsNumbersAreDivided) {
  LedgerDelta ledger;
  ledger.voluntary_switches = 900;
  ledger.involuntary_switches = 50;
  const std::vector<EstimatedSample> estimates =
      EstimateSwitches(kThread, ledger,
                       std::vector<Sample>{Switches(kQueue, Reason::kLock, 20, 16),
                                           Switches(kRead, Reason::kPipe, 10, 16),
                                           Switches(kBurn, Reason::kRunQueue, 3, 16)});
  EXPECT_EQ(Of(estimates, kQueue).amount, 600);
  EXPECT_EQ(Of(estimates, kRead).amount, 300);
  EXPECT_EQ(Of(estimates, kBurn).amount, 50);
}

// As the program draws them: each with the weight that it has by then.
TEST(EstimateSwitchesTest, StatedErrorsAreThoseOfDrawnSwitches) {
  constexpr int kTries = 1'000;
  constexpr int kSwitches = 20'000;
  constexpr double kShare = 0.3;
  constexpr double kTruth = kShare * kSwitches;
  std::mt19937_64 random(7);
  double sum = 0, squares = 0, stated = 0;
  int held = 0;
  for (int i = 0; i < kTries; i++) {
    std::map<std::pair<StackId, uint64_t>, int64_t> drawn;
    int taken = 0;
    for (int k = 0; k < kSwitches; k++) {
      const uint64_t one_in = uint64_t{4} << (2 * (taken / PROFD_SWITCH_STACKS));
      const StackId stack = random() % 1'000 < 1'000 * kShare ? kRead : kQueue;
      if (random() % one_in != 0) continue;
      taken++;
      drawn[{stack, one_in}]++;
    }
    std::vector<Sample> samples;
    for (const auto& [place, count] : drawn) {
      samples.push_back(Switches(place.first, Reason::kLock, count, place.second));
    }
    const EstimatedSample read =
        Of(EstimateSwitches(kThread, Ledger(kSwitches, 0, 0), samples), kRead);
    const auto amount = static_cast<double>(read.amount);
    const auto error = static_cast<double>(read.error);
    sum += amount;
    squares += (amount - kTruth) * (amount - kTruth);
    stated += error * error;
    held += std::abs(amount - kTruth) <= kNormal95 * error ? 1 : 0;
  }
  const double deviation = std::sqrt(squares / kTries);
  EXPECT_NEAR(sum / kTries, kTruth, 4 * deviation / std::sqrt(kTries));
  EXPECT_NEAR(std::sqrt(stated / kTries), deviation, 0.15 * deviation);
  EXPECT_GT(held, 0.92 * kTries);
}

// A quiet time in which every switch is counted, all from one stack, then a busy one in which few
// are and half of them come from another.
TEST(EstimateSwitchesTest, StatedErrorsHoldWhereStacksOccurWithDifferentWeights) {
  constexpr int kTries = 1'000;
  constexpr int kQuiet = 6'000, kBusy = 12'000;
  constexpr uint64_t kOneIn = 64;
  const std::map<StackId, int> truth = {{kQueue, kQuiet + kBusy / 2}, {kRead, kBusy / 2}};
  std::mt19937_64 random(11);
  std::map<StackId, double> squares, stated;
  std::map<StackId, int> held;
  for (int i = 0; i < kTries; i++) {
    std::map<StackId, int64_t> drawn;
    for (int k = 0; k < kBusy; k++) {
      if (random() % kOneIn == 0) drawn[k % 2 == 0 ? kRead : kQueue]++;
    }
    const std::vector<EstimatedSample> estimates =
        EstimateSwitches(kThread, Ledger(kQuiet + kBusy, 0, 0),
                         std::vector<Sample>{Switches(kQueue, Reason::kLock, kQuiet, 1),
                                             Switches(kQueue, Reason::kLock, drawn[kQueue], kOneIn),
                                             Switches(kRead, Reason::kLock, drawn[kRead], kOneIn)});
    for (const auto& [stack, switches] : truth) {
      const EstimatedSample& s = Of(estimates, stack);
      const double apart = static_cast<double>(s.amount) - switches;
      const auto error = static_cast<double>(s.error);
      squares[stack] += apart * apart;
      stated[stack] += error * error;
      held[stack] += std::abs(apart) <= kNormal95 * error ? 1 : 0;
    }
  }
  for (const auto& [stack, switches] : truth) {
    const double deviation = std::sqrt(squares[stack] / kTries);
    EXPECT_NEAR(std::sqrt(stated[stack] / kTries), deviation, 0.15 * deviation);
    EXPECT_GT(held[stack], 0.92 * kTries);
  }
}

}  // namespace
}  // namespace profd
