// Single waits that are long enough are told of, exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::IsEmpty;

class LongWaitKernelTest : public KernelTest {
 protected:
  // A nap of the child as it measured it.
  struct Measured {
    int64_t begin, end;
  };

  // Naps when it is told to.
  static void Naps(Child& me, Measured* measured, int64_t ns) {
    while (true) {
      me.Wait();
      measured->begin = MonotonicNs();
      Nap(ns);
      measured->end = MonotonicNs();
      me.Signal();
    }
  }
  // The nap that was told of since the last call.
  profd_long_wait_record Told() {
    Poll();
    const auto nap = std::find_if(long_waits_.begin(), long_waits_.end(), [](const auto& wait) {
      return wait.reason == PROFD_REASON_SLEEP;
    });
    EXPECT_NE(nap, long_waits_.end());
    const profd_long_wait_record told = nap == long_waits_.end() ? profd_long_wait_record{} : *nap;
    long_waits_.clear();
    return told;
  }
};

constexpr int64_t kNap = 30 * kMillisecond;
// The distance of two clocks, as it is learned at switches.
constexpr int64_t kClocks = kMillisecond;

TEST_F(LongWaitKernelTest, IsToldOfWithItsLengthAndWhatATickSaw) {
  const Shared<Measured> measured;
  const Child child([&](Child& me) { Naps(me, &*measured, kNap); });
  START_OR_SKIP(WithSwitch(true));
  Mark(child);
  kernel_->SetLongWaits({kNap / 2, kNap / 2});
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  const profd_long_wait_record unseen = Told();
  EXPECT_EQ(unseen.stack, 0U) << "there was no tick";
  EXPECT_EQ(unseen.sysno, -1);
  EXPECT_FALSE(unseen.earlier);
  const auto begin = static_cast<int64_t>(unseen.begin);
  const auto length = static_cast<int64_t>(unseen.duration);
  EXPECT_GE(begin, measured->begin - kClocks);
  EXPECT_LE(begin + length, measured->end + kClocks);
  EXPECT_GE(length, kNap - kClocks);
  EXPECT_LE(length, measured->end - measured->begin);

  child.Signal();
  ASSERT_TRUE(Eventually([&] {
    found_.clear();
    Tick();
    return std::any_of(found_.begin(), found_.end(),
                       [](const profd_visit& visit) { return visit.reason == PROFD_REASON_SLEEP; });
  }));
  const profd_visit visit = found_.front();
  EXPECT_EQ(visit.followed, PROFD_FOLLOWED);
  child.Wait();
  child.AwaitSleep();
  const profd_long_wait_record seen = Told();
  EXPECT_EQ(seen.thread_id, visit.thread_id);
  EXPECT_EQ(seen.stack, visit.stack);
  EXPECT_EQ(seen.sysno, SYS_nanosleep);
  EXPECT_NEAR(static_cast<double>(seen.begin), static_cast<double>(visit.since), kClocks);
  EXPECT_EQ(seen.waker, 0U) << "without the layer";

  child.Signal();
  child.Wait();
  child.AwaitSleep();
  EXPECT_EQ(Told().stack, 0U) << "the tick saw the nap before";
  EXPECT_EQ(Loss(PROFD_LOSS_LONG_WAIT), 0U);
}

TEST_F(LongWaitKernelTest, ShorterOnesAreNot) {
  const Shared<Measured> measured;
  const Child child([&](Child& me) { Naps(me, &*measured, 2 * kMillisecond); });
  START_OR_SKIP(WithSwitch(true));
  Mark(child);
  for (const int64_t least : {int64_t{0}, kPatience}) {
    kernel_->SetLongWaits({least, least});
    child.Signal();
    child.Wait();
    child.AwaitSleep();
    Poll();
    EXPECT_THAT(long_waits_, IsEmpty());
  }
}

// What was there before the ledger has a begin that nobody saw.
TEST_F(LongWaitKernelTest, SaysThatAWaitBeganEarlier) {
  const Child child([](Child& me) {
    me.Wait();
    me.Signal();
    WaitForever();
  });
  START_OR_SKIP(WithSwitch(true));
  kernel_->SetLongWaits({1, 1});
  Mark(child);
  Tick();
  ASSERT_FALSE(found_.empty());
  EXPECT_EQ(found_[0].followed, PROFD_FOLLOWED | PROFD_FOLLOWED_LATE);
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  Poll();
  ASSERT_FALSE(long_waits_.empty());
  EXPECT_TRUE(long_waits_[0].earlier);
  EXPECT_EQ(long_waits_[0].reason, PROFD_REASON_PIPE);
}

}  // namespace
}  // namespace profd
