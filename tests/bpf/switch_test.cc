// The switch layer, on and off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <cmath>
#include <thread>

#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::SizeIs;

TEST_F(KernelTest, WithoutTheSwitchLayerTheBooksAddUp) {
  START_OR_SKIP(WithSwitch(false));
  constexpr int kNaps = 20;
  const Shared<int64_t> waits;
  const Child child([&](Child& me) {
    me.Wait();
    std::thread([&] {
      pthread_setname_np(pthread_self(), "napper");
      *waits = NapOften(kNaps, 2 * kMillisecond);
      me.Signal();
      WaitForever();
    }).detach();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  child.Signal();
  for (int i = 0; i < 2; ++i) {
    child.Wait();
    Drain();
  }
  const LedgerDelta& napper = Named("napper").sum;
  EXPECT_GE(napper.wall_ns, kNaps * 2 * kMillisecond);
  EXPECT_EQ(napper.on_cpu_ns, napper.books_on_cpu_ns);
  EXPECT_GT(napper.on_cpu_ns, 0);
  EXPECT_GT(*waits, 0);
  EXPECT_GE(napper.voluntary_switches, *waits);
  EXPECT_GE(napper.unattributed_ns + napper.off_ns[PROFD_REASON_RUNQUEUE],
            kNaps * 2 * kMillisecond);
  EXPECT_EQ(kernel_->SwitchCost().timed, 0U);
}

// Each phase begins with a drain and ends with one; what a phase holds is told by its own part.
TEST_F(KernelTest, LayerThatIsShedAndRestoredCountsNothingTwice) {
  constexpr int kNaps = 20;
  const Shared<int64_t> waits;
  // Before the kernel side: a child would keep its link open.
  const Child child([&](Child& me) {
    pthread_setname_np(pthread_self(), "napper");
    while (true) {
      me.Wait();
      *waits = NapOften(kNaps, 2 * kMillisecond);
      me.Signal();
    }
  });
  START_OR_SKIP();
  Mark(child);
  const auto nap = [&] {
    by_thread_.clear();
    child.Signal();
    child.Wait();
    Drain();
    for (const profd_thread_record& record : live_) EXPECT_EQ(record.pid, child.pid());
    EXPECT_THAT(by_thread_, SizeIs(1));
    return by_thread_.begin()->second.sum;
  };
  for (int round = 0; round < 3; ++round) {
    const LedgerDelta exact = nap();
    EXPECT_EQ(exact.unattributed_ns, 0);
    EXPECT_GE(exact.off_ns[PROFD_REASON_SLEEP] + exact.off_ns[PROFD_REASON_RUNQUEUE],
              kNaps * 2 * kMillisecond);
    EXPECT_GT(*waits, 0);
    EXPECT_EQ(exact.waits[PROFD_REASON_SLEEP], *waits);

    ASSERT_TRUE(kernel_->SetSwitchLayer(false).ok());
    EXPECT_FALSE(kernel_->switch_on());
    const uint64_t timed = kernel_->SwitchCost().timed;
    const LedgerDelta shed = nap();
    EXPECT_GE(shed.unattributed_ns + shed.off_ns[PROFD_REASON_RUNQUEUE], kNaps * 2 * kMillisecond);
    EXPECT_EQ(shed.on_cpu_ns, shed.books_on_cpu_ns);
    EXPECT_EQ(shed.waits[PROFD_REASON_SLEEP], 0);
    EXPECT_GT(*waits, 0);
    EXPECT_GE(shed.voluntary_switches, *waits);
    EXPECT_EQ(kernel_->SwitchCost().timed, timed) << "it runs while it is shed";

    ASSERT_TRUE(kernel_->SetSwitchLayer(true).ok());
    Drain();
  }
  EXPECT_EQ(accounts_->vanished(), 0U);
}

// What a switch costs is known from one in PROFD_COST_SAMPLE, within 5 standard deviations: a false
// alarm in 1.7 million runs. A wait is two runs of the program, as the thread goes and as it comes.
TEST_F(KernelTest, OneSwitchOfATargetInManyIsTimedAndNoOther) {
  START_OR_SKIP();
  const Shared<int64_t> waits;
  const Shared<rusage> usage;
  const Child child([&](Child& me) {
    me.Wait();
    *waits = NapOften(5'000, 1);
    getrusage(RUSAGE_THREAD, &*usage);
    me.Signal();
    WaitForever();
  });
  EXPECT_GT(NapOften(100, 1), 0) << "this process switches, but is no target";
  EXPECT_EQ(kernel_->SwitchCost().timed, 0U);
  Mark(child);
  child.Signal();
  child.Wait();
  const profd_switch_cost cost = kernel_->SwitchCost();
  const double least = static_cast<double>(*waits) / PROFD_COST_SAMPLE;
  const double most =
      2.0 * static_cast<double>(usage->ru_nvcsw + usage->ru_nivcsw + 2) / PROFD_COST_SAMPLE;
  EXPECT_GE(static_cast<double>(cost.timed), least - 5 * std::sqrt(least));
  EXPECT_LE(static_cast<double>(cost.timed), most + 5 * std::sqrt(most));
  EXPECT_GT(cost.timed_ns, 0U);
}

}  // namespace
}  // namespace profd
