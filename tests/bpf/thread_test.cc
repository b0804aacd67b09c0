// Drains of the threads' accounts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(KernelTest, DefaultTargetIsEveryProcessButOurs) {
  KernelOptions options = kCore;
  options.default_target = kTarget;
  START_OR_SKIP(options);
  const Child child([](Child&) { WaitForever(); });
  Drain();
  std::set<int32_t> pids;
  for (const profd_thread_record& record : live_) pids.insert(record.pid);
  EXPECT_THAT(pids, Contains(child.pid()));
  EXPECT_THAT(pids, Not(Contains(getpid())));
}

// As many threads as do not fit into what the kernel writes at once.
class RestTest : public KernelTest, public ::testing::WithParamInterface<bool> {};

TEST_P(RestTest, ThreadsAtRestAreLeftOutUntilTheyRun) {
  constexpr size_t kThreads = 300;
  const bool layer = GetParam();
  START_OR_SKIP(WithSwitch(layer));
  const Shared<std::atomic<int64_t>> waits;
  const Child child([&](Child& me) {
    for (size_t i = 1; i < kThreads; ++i) {
      std::thread([&, i] {
        if (i != kThreads / 2) WaitForever();
        pthread_setname_np(pthread_self(), "waker");
        while (true) {
          me.Wait();
          *waits += NapOften(1, kMillisecond);
          me.Signal();
        }
      }).detach();
    }
    WaitForever();
  });
  Mark(child);
  ASSERT_TRUE(Eventually([&] {
    Drain(/*every_thread=*/true);
    return live_.size() == kThreads &&
           std::all_of(live_.begin(), live_.end(),
                       [](const auto& record) { return record.at_rest != 0; });
  }));
  for (const bool all : {false, true, false}) {
    size_t written = 0;
    const auto left_out = kernel_->DrainThreads([&](auto) { ++written; }, all);
    ASSERT_TRUE(left_out.ok()) << left_out.status();
    EXPECT_EQ(left_out->threads, all ? 0 : kThreads);
    EXPECT_EQ(written, all ? kThreads : 0);
  }
  const int64_t began = MonotonicNs();
  Drain();
  EXPECT_THAT(live_, IsEmpty());
  const LedgerDelta earlier = Named("waker").sum;
  for (int i = 0; i < 10; ++i) {
    child.Signal();
    child.Wait();
    Drain();
    EXPECT_LE(live_.size(), 2U);
  }
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return live_.empty();
  }));
  const LedgerDelta& waker = Named("waker").sum;
  EXPECT_GT(*waits, 0);
  // The wait for its parent is another one each time, unless that was quicker.
  EXPECT_GT(waker.voluntary_switches - earlier.voluntary_switches, *waits);
  EXPECT_GE(waker.wall_ns - earlier.wall_ns, 10 * kMillisecond);
  EXPECT_LE(waker.wall_ns - earlier.wall_ns, MonotonicNs() - began);
  EXPECT_EQ(Accounted(waker), waker.wall_ns);
  EXPECT_EQ(accounts_->vanished(), 0U);
  EXPECT_EQ(accounts_->live_threads(), kThreads);
  if (layer) {
    EXPECT_EQ(waker.waits[PROFD_REASON_SLEEP], *waits);
    EXPECT_GE(waker.off_ns[PROFD_REASON_SLEEP] + waker.off_ns[PROFD_REASON_RUNQUEUE],
              10 * kMillisecond);
    EXPECT_EQ(waker.unattributed_ns, 0);
  }
  // All are killed: their ends are told, and none is waited for.
  ASSERT_EQ(kill(child.pid(), SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return accounts_->live_threads() == 0;
  }));
  EXPECT_EQ(accounts_->vanished(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Layers, RestTest, ::testing::Bool(),
                         [](const auto& layer) { return layer.param ? "Switch" : "BooksOnly"; });

}  // namespace
}  // namespace profd
