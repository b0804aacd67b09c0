// Who ended waits: what it costs, what its counters stand for, and its frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/collect/cost_table.h"
#include "daemon/kernel/kernel_code.h"
#include "daemon/profile/waker_estimate.h"
#include "daemon/service/waker_frames.h"
#include "daemon/source/waker.h"
#include "daemon/source/waker_knob.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kTickNs = 10'000'000;

TEST(KernelCodeTest, EntriesBeginBehindTheExceptions) {
  std::istringstream symbols(
      "ffffffff81000000 T _text\n"
      "ffffffff81000300 T __irqentry_text_start\n"
      "ffffffff81000c60 T asm_exc_page_fault\n"
      "ffffffff81000d40 T asm_common_interrupt\n"
      "ffffffff81000df0 T asm_sysvec_apic_timer_interrupt\n"
      "ffffffff81000f70 T __irqentry_text_end\n");
  const KernelCode code = FindKernelCode(symbols);
  EXPECT_EQ(code.interrupts.begin, 0xffffffff81000d40U);
  EXPECT_EQ(code.interrupts.end, 0xffffffff81000f70U);
  EXPECT_EQ(code.timeout.end, 0U);
  EXPECT_EQ(code.signal.end, 0U);
}

TEST(KernelCodeTest, FunctionsEndWhereTheNextOneBegins) {
  std::istringstream symbols(
      "ffffffff8136d080 t __pfx_complete_signal\n"
      "ffffffff8136d090 t complete_signal\n"
      "ffffffff8136d3a0 T sigqueue_alloc\n"
      "ffffffff8136e4d0 T signal_wake_up_state\n"
      "ffffffff8136e4d0 T __pfx_alias\n"
      "ffffffff8136e540 T zap_process\n"
      "ffffffff814204a0 t __pfx_hrtimer_wakeup\n"
      "ffffffff814204b0 t hrtimer_wakeup\n"
      "ffffffff81460000 t far_away\n");
  const KernelCode code = FindKernelCode(symbols);
  EXPECT_EQ(code.signal.begin, 0xffffffff8136d090U);
  EXPECT_EQ(code.signal.end, 0xffffffff8136d3a0U);
  EXPECT_EQ(code.timeout.end, 0U) << "no function is as long";
  EXPECT_EQ(code.interrupts.end, 0U);
}

TEST(KernelCodeTest, SignalsAreKnownByWhatIsAPartOfNothingElse) {
  std::istringstream symbols(
      "ffffffff8136e4d0 T signal_wake_up_state\n"
      "ffffffff8136e4d0 T __pfx_alias\n"
      "ffffffff8136e540 T zap_process\n");
  const KernelCode code = FindKernelCode(symbols);
  EXPECT_EQ(code.signal.begin, 0xffffffff8136e4d0U);
  EXPECT_EQ(code.signal.end, 0xffffffff8136e540U);
}

TEST(KernelCodeTest, EntriesAreNotKnownWhereAddressesAreHiddenOrInAnotherOrder) {
  for (const char* text :
       {"",
        "0000000000000000 T asm_exc_page_fault\n0000000000000000 T asm_common_interrupt\n"
        "0000000000000000 T __irqentry_text_end\n",
        "ffffffff81000d40 T asm_common_interrupt\nffffffff81000f70 T __irqentry_text_end\n",
        "ffffffff81000d40 T asm_common_interrupt\nffffffff81000d80 T asm_exc_page_fault\n"
        "ffffffff81000f70 T __irqentry_text_end\n",
        "zz T asm_common_interrupt\n"}) {
    std::istringstream symbols(text);
    EXPECT_EQ(FindKernelCode(symbols).interrupts.end, 0U) << text;
  }
}

TEST(WakerKnobTest, CostIsEnteringTimesWakeUpsAndTheStacks) {
  WakerKnob knob;
  knob.SetEntry(100);
  EXPECT_EQ(knob.payer(), Payer::kTarget);
  EXPECT_EQ(knob.CostAt(0), 0) << "nothing is known yet";
  const profd_waker_cost cost = {
      .wakes = 1'000, .timed = 10, .timed_ns = 500, .walks = 20, .walk_ns = 100'000};
  EXPECT_DOUBLE_EQ(knob.InPathNs(cost), 1'000 * 150 + 100'000);
  knob.Learn({.seconds = 1, .switches = 2'000, .cost = cost});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), (150'000 + 100'000) / 1e9);
  EXPECT_DOUBLE_EQ(knob.CostAt(1), (150'000 + 25'000) / 1e9);
  // While it is off, switches tell the rate.
  knob.Learn({.seconds = 1, .switches = 4'000, .cost = cost});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 2 * (150'000 + 100'000) / 1e9);
  knob.Learn({.seconds = 0, .switches = 0, .cost = cost});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 2 * (150'000 + 100'000) / 1e9) << "a pause is no load";
  for (int level = 1; level < knob.levels(); level++) {
    EXPECT_LT(knob.CostAt(level), knob.CostAt(level - 1));
    EXPECT_THAT(knob.GivenUpAt(level), Not(IsEmpty()));
  }
  EXPECT_EQ(knob.OneInAt(0), 1U);
  EXPECT_EQ(knob.OneInAt(knob.levels() - 1), 0U);
  EXPECT_EQ(knob.sampled_levels(), knob.levels() - 1);
  EXPECT_THAT(knob.GivenUpAt(0), IsEmpty());
}

class WakerSourceTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  SourceContext context_{.kernel = &kernel_, .clock = &clock_};
  ThreadSource threads_{context_, true};
  WakerSource source_{context_, &threads_, nullptr};
};

TEST_F(WakerSourceTest, CountersAreSamplesOfItsKind) {
  ASSERT_TRUE(source_.Attach().ok());
  EXPECT_FALSE(kernel_.wakers_on()) << "before there are targets";
  ASSERT_TRUE(source_.Apply().ok());
  EXPECT_EQ(kernel_.waker_one_in, 1U);
  profd_sample_key key{};
  key.thread_id = 7;
  key.stack = 9;
  key.arg0 = 11;
  key.sysno = -1;
  key.reason = PROFD_REASON_LOCK;
  key.kind = PROFD_KIND_WAKER;
  kernel_.waker_counters = {{key, {.weight = 2 * kTickNs, .count = 2}}};
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_TRUE(delta.wakers_on);
  ASSERT_THAT(delta.samples, SizeIs(1));
  EXPECT_EQ(delta.samples[0].key.kind, Kind::kWaker);
  EXPECT_EQ(delta.samples[0].key.stack, StackId{9});
  EXPECT_EQ(WaiterOf(delta.samples[0].key), StackId{11});
  EXPECT_EQ(delta.samples[0].ticks, 2);
  EXPECT_TRUE(source_.Status()->on);
}

TEST_F(WakerSourceTest, DetachedItCostsNothingAndSaysSo) {
  ASSERT_TRUE(source_.Attach().ok());
  ASSERT_TRUE(source_.Apply().ok());
  source_.Detach();
  EXPECT_FALSE(kernel_.wakers_on());
  EXPECT_FALSE(source_.Status()->on);
  EXPECT_EQ(source_.Status()->note, kPausedNote);
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_FALSE(delta.wakers_on);
}

TEST_F(WakerSourceTest, WithoutPermissionItIsLostAndSaysWhy) {
  kernel_.set_wakers = {.times = 1, .status = absl::PermissionDeniedError("needs CAP_PERFMON")};
  EXPECT_TRUE(absl::IsPermissionDenied(source_.Attach()));
}

TEST_F(WakerSourceTest, CostIsInThePath) {
  kernel_.waker_cost = {.wakes = 10, .timed = 1, .timed_ns = 50, .walks = 1, .walk_ns = 4'000};
  ASSERT_TRUE(source_.Attach().ok());
  source_.Calibrate();
  std::vector<CostRow> rows;
  source_.Costs(rows);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].payer, Payer::kTarget);
  const CollectorCost cost = SumCosts(rows);
  EXPECT_EQ(cost.waker_in_path_ns, 10 * 150 + 4'000) << "100 ns to enter are assumed";
  EXPECT_EQ(cost.in_path_ns, cost.waker_in_path_ns);
  EXPECT_EQ(cost.wakes, 10);
}

constexpr StackId kQueue{101}, kRead{103}, kRelease{201}, kTimer{203};

EstimatedSample Wait(Reason reason, StackId stack, int64_t amount, int64_t ticks) {
  return {.key = {.thread = ThreadId{1}, .stack = stack, .reason = reason},
          .amount = amount,
          .error = amount / 10,
          .weight = ticks * kTickNs,
          .ticks = ticks};
}

Sample WokenBy(Reason reason, StackId waiter, StackId waker, int64_t ticks) {
  return {.key = {.thread = ThreadId{1},
                  .stack = waker,
                  .argument = static_cast<uint64_t>(waiter),
                  .reason = reason,
                  .kind = Kind::kWaker},
          .weight = ticks * kTickNs,
          .ticks = ticks};
}

int64_t SumOf(const std::vector<EstimatedSample>& samples, StackId waiter, StackId waker) {
  int64_t sum = 0;
  for (const EstimatedSample& s : samples) {
    EXPECT_EQ(s.key.kind, Kind::kWaker);
    if (WaiterOf(s.key) == waiter && s.key.stack == waker) sum += s.amount;
  }
  return sum;
}

TEST(EstimateWakersTest, WaitsAreDividedAsTheirWakersWeigh) {
  EstimatedThread waits;
  waits.samples = {Wait(Reason::kLock, kQueue, 1'000'001, 100),
                   Wait(Reason::kPipe, kRead, 500, 50)};
  const std::vector<EstimatedSample> parts =
      EstimateWakers(waits, std::vector<Sample>{WokenBy(Reason::kLock, kQueue, kRelease, 60),
                                                WokenBy(Reason::kLock, kQueue, kTimer, 30),
                                                WokenBy(Reason::kPipe, kRead, kRelease, 50),
                                                WokenBy(Reason::kPipe, StackId{999}, kRelease, 5)});
  EXPECT_NEAR(SumOf(parts, kQueue, kRelease), 600'000, 1);
  EXPECT_NEAR(SumOf(parts, kQueue, kTimer), 300'000, 1);
  EXPECT_NEAR(SumOf(parts, kQueue, kWakerUnknown), 100'000, 1);
  EXPECT_EQ(SumOf(parts, kRead, kRelease), 500);
  EXPECT_EQ(SumOf(parts, kRead, kWakerUnknown), 0);
  const int64_t sum =
      std::accumulate(parts.begin(), parts.end(), int64_t{0},
                      [](int64_t so_far, const EstimatedSample& s) { return so_far + s.amount; });
  EXPECT_EQ(sum, 1'000'501) << "to the nanosecond";
  for (const EstimatedSample& s : parts) EXPECT_GT(s.error, 0);
}

TEST(EstimateWakersTest, WaitsThatBeganBeforeTheWindowWeighNoMoreThanWhatIsThere) {
  EstimatedThread waits;
  waits.samples = {Wait(Reason::kLock, kQueue, 1'000, 10)};
  const std::vector<EstimatedSample> parts =
      EstimateWakers(waits, std::vector<Sample>{WokenBy(Reason::kLock, kQueue, kRelease, 30),
                                                WokenBy(Reason::kLock, kQueue, kTimer, 10)});
  EXPECT_EQ(SumOf(parts, kQueue, kRelease), 750);
  EXPECT_EQ(SumOf(parts, kQueue, kTimer), 250);
  EXPECT_EQ(SumOf(parts, kQueue, kWakerUnknown), 0);
}

TEST(EstimateWakersTest, RunQueueWaitsForNobodyAndTheRestIsUnknown) {
  EstimatedThread waits;
  waits.samples = {Wait(Reason::kRunQueue, kQueue, 70, 7), Wait(Reason::kSleep, kQueue, 30, 3),
                   Wait(Reason::kFault, StackId{}, 5, 0)};
  const std::vector<EstimatedSample> parts = EstimateWakers(waits, {});
  EXPECT_EQ(SumOf(parts, kQueue, kNoWaker), 70);
  EXPECT_EQ(SumOf(parts, kQueue, kWakerUnknown), 30);
  EXPECT_EQ(SumOf(parts, StackId{}, kWakerUnknown), 5);
}

StackTrace NamedWaker(const char* process, const char* thread) {
  StackTrace stack = {.kernel_frames = PROFD_WAKER_NAME_FRAMES, .frames = {0, 0, 0, 0}};
  std::strncpy(reinterpret_cast<char*>(&stack.frames[0]), process, PROFD_COMM_LEN);
  std::strncpy(reinterpret_cast<char*>(&stack.frames[2]), thread, PROFD_COMM_LEN);
  return stack;
}

TEST(WakerFramesTest, NamesAreThoseOfProcessAndThread) {
  EXPECT_EQ(WakerName(NamedWaker("redis-server", "redis-server")), "redis-server");
  EXPECT_EQ(WakerName(NamedWaker("redis-server", "bio_close_file")), "redis-server/bio_close_file");
  EXPECT_EQ(WakerName(NamedWaker("sixteen bytes ..", "x")), "sixteen bytes ../x");
  EXPECT_EQ(WakerName(NamedWaker("", "")), "");
  EXPECT_EQ(WakerName(NamedWaker("ksoftirqd/3", "ksoftirqd/3")), "") << "it works for interrupts";
  EXPECT_EQ(WakerName(NamedWaker("kworker/u8:3", "kworker/u8:3")), "kworker");
  EXPECT_EQ(WakerName(NamedWaker("kworkers", "kworkers")), "kworkers");
  EXPECT_TRUE(HasWakerName(NamedWaker("", "")));
  EXPECT_FALSE(HasWakerName({}));
  EXPECT_FALSE(HasWakerName({.kernel_frames = 1, .frames = {1, 2, 3, 4, 5}}));
}

TEST(WakerFramesTest, TheWakingItselfIsLeftOut) {
  const std::vector<std::string_view> frames = {"bpf_prog_1_on_waking", "bpf_trace_run1",
                                                "try_to_wake_up", "wake_up_q", "futex_wake"};
  EXPECT_EQ(FramesOfWaking(frames), 3U);
  EXPECT_EQ(FramesOfWaking(std::vector<std::string_view>{"[kernel]+0x1", "[kernel]+0x2"}), 0U);
  EXPECT_EQ(FramesOfWaking({}), 0U);
}

TEST(WakerFramesTest, InterruptsAreCalledByWhatTheyAreFor) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(InterruptName(Names{"hrtimer_wakeup", "__hrtimer_run_queues"}), "[timer]");
  EXPECT_EQ(InterruptName(Names{"process_timeout", "call_timer_fn", "run_timer_softirq"}),
            "[timer]");
  EXPECT_EQ(InterruptName(Names{"sock_def_readable", "tcp_v4_rcv", "net_rx_action"}), "[network]");
  EXPECT_EQ(InterruptName(Names{"autoremove_wake_function", "bio_endio", "blk_mq_end_request"}),
            "[block]");
  EXPECT_EQ(InterruptName(Names{"complete", "some_driver_irq"}), "[interrupt]");
  EXPECT_EQ(InterruptName({}), "[interrupt]");
}

}  // namespace
}  // namespace profd
