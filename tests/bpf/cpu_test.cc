// The clock of each CPU, and what it counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <vector>

#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr KernelOptions kClock = WithLayers({&KernelOptions::cpu_layer}, true);

int64_t ThreadCpu() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Uses so much CPU time each time that it is told to.
void ComputeAsTold(Child& me, int64_t ns) {
  while (true) {
    me.Wait();
    const int64_t end = ThreadCpu() + ns;
    while (ThreadCpu() < end) continue;
    me.Signal();
  }
}

class CpuKernelTest : public KernelTest {
 protected:
  static constexpr int64_t kUsed = 100 * kMillisecond;

  void SetClocks(int64_t period_ns) {
    const auto cpus = kernel_->ClockedCpus();
    ASSERT_TRUE(cpus.ok()) << cpus.status();
    ASSERT_THAT(*cpus, Not(IsEmpty()));
    for (const uint32_t cpu : *cpus) {
      const absl::Status status = kernel_->SetCpuClock(cpu, period_ns);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  std::vector<CounterEntry> Samples() {
    auto samples = kernel_->DrainCpuCounters();
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.ok() ? *std::move(samples) : std::vector<CounterEntry>();
  }
  static uint64_t Count(const std::vector<CounterEntry>& samples) {
    uint64_t count = 0;
    for (const auto& [key, value] : samples) count += value.count;
    return count;
  }
};

TEST_F(CpuKernelTest, CountsStacksOfTargetsAndOfNobodyElse) {
  // Before the kernel side: a child would keep its clocks open.
  const Child child([](Child& me) { ComputeAsTold(me, kUsed); });
  const Child stranger([](Child& me) { ComputeAsTold(me, kUsed); });
  START_OR_SKIP(kClock);
  Mark(child);
  const auto compute = [&] {
    stranger.Signal();
    child.Signal();
    child.Wait();
    stranger.Wait();
  };
  // No clock: nothing is counted.
  compute();
  EXPECT_THAT(Samples(), IsEmpty());
  ASSERT_NO_FATAL_FAILURE(SetClocks(kMillisecond));
  compute();
  const std::vector<CounterEntry> samples = Samples();
  Poll();
  std::set<uint64_t> threads;
  std::set<StackId> stacks;
  for (const StackTrace& stack : stacks_) stacks.insert(stack.id);
  for (const auto& [key, value] : samples) {
    threads.insert(key.thread_id);
    EXPECT_EQ(key.kind, PROFD_KIND_CPU);
    EXPECT_EQ(value.weight, value.count * kMillisecond);
    EXPECT_TRUE(stacks.contains(StackId{key.stack}));
  }
  EXPECT_THAT(threads, SizeIs(1));
  // Of its time and no more: the clock may come late, never early.
  EXPECT_GT(Count(samples), 0U);
  EXPECT_LE(Count(samples), 2 * static_cast<uint64_t>(kUsed / kMillisecond));
}

TEST_F(CpuKernelTest, EpochsCountEverySampleOnceAndTheClockStops) {
  const Child child([](Child& me) { ComputeAsTold(me, kUsed); });
  START_OR_SKIP(kClock);
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(SetClocks(kMillisecond / 5));
  uint64_t counted = 0;
  child.Signal();
  for (int i = 0; i < 100; ++i) {
    counted += Count(Samples());
    Nap(kMillisecond);
  }
  child.Wait();
  // A new period takes the place of the one before.
  ASSERT_NO_FATAL_FAILURE(SetClocks(kMillisecond));
  ASSERT_NO_FATAL_FAILURE(SetClocks(0));
  for (int i = 0; i < 2; ++i) counted += Count(Samples());
  const uint64_t samples = kernel_->CpuCost().samples;
  EXPECT_GT(samples, 0U);
  EXPECT_EQ(counted, samples);
  EXPECT_EQ(Loss(PROFD_LOSS_CPU_LOST), 0U);
  child.Signal();
  child.Wait();
  EXPECT_EQ(kernel_->CpuCost().samples, samples);
  EXPECT_THAT(Samples(), IsEmpty());
}

// In a system call the kernel's frames come first, then the program's.
TEST_F(CpuKernelTest, SeesTheKernelsStackAndTheProgramsUnderIt) {
  const Child child([](Child& me) { ComputeAsTold(me, kUsed); });
  START_OR_SKIP(kClock);
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(SetClocks(kMillisecond / 5));
  bool both = false, user_alone = false;
  ASSERT_TRUE(Eventually([&] {
    child.Signal();
    child.Wait();
    Samples();
    Poll();
    for (const StackTrace& stack : stacks_) {
      const bool user = stack.frames.size() > stack.kernel_frames;
      both |= stack.kernel_frames > 0 && user;
      user_alone |= stack.kernel_frames == 0 && user;
    }
    return both && user_alone;
  }));
}

TEST_F(CpuKernelTest, InterruptsHaveACost) {
  START_OR_SKIP(kClock);
  const auto ns = kernel_->MeasureCpuInterrupt();
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_GE(*ns, 0);
}

TEST_F(CpuKernelTest, CpuThatIsNotThereHasNoClock) {
  START_OR_SKIP(kClock);
  EXPECT_FALSE(kernel_->SetCpuClock(PROFD_MAX_CPUS, kMillisecond).ok());
}

}  // namespace
}  // namespace profd
