// Who has the CPU that a thread waits for, and threads that are kept from running.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::Contains;

int FirstCpu() {
  cpu_set_t allowed;
  EXPECT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  return cpu;
}

// The calling thread runs on this CPU only, for as long as this lives.
class OnCpu {
 public:
  explicit OnCpu(int cpu) {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    EXPECT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
  }
  ~OnCpu() { sched_setaffinity(0, sizeof(before_), &before_); }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

 private:
  cpu_set_t before_;
};

void Compute(Child& me, int cpu, const char* name) {
  const OnCpu pinned(cpu);
  prctl(PR_SET_NAME, name);
  me.Signal();
  volatile bool forever = true;
  while (forever) continue;
}

class OccupantKernelTest : public KernelTest {
 protected:
  // A tick at an instant at which this thread did not run.
  void TickAfterNap() {
    const int64_t instant = MonotonicNs() + kMillisecond / 2;
    Nap(kMillisecond);
    found_.clear();
    ASSERT_TRUE(kernel_
                    ->VisitAll(instant,
                               [this](std::span<const uint8_t> bytes) {
                                 profd_visit visit;
                                 ASSERT_EQ(bytes.size(), sizeof(visit));
                                 std::memcpy(&visit, bytes.data(), sizeof(visit));
                                 found_.push_back(visit);
                               })
                    .ok());
    Poll();
  }

  // Of what the visits of the last tick found; kind 0 if nothing was found.
  profd_object Occupant() const {
    profd_object object{};
    for (const profd_visit& visit : found_) {
      if (visit.reason != PROFD_REASON_RUNQUEUE) continue;
      for (const StackTrace& stack : stacks_) {
        if (stack.id != StackId{visit.arg0} || stack.frames.size() < PROFD_OBJECT_WORDS) continue;
        std::memcpy(&object, stack.frames.data(), sizeof(object));
      }
    }
    return object;
  }

  // What the only thread that is watched waits for now.
  std::set<uint8_t> Reasons() {
    found_.clear();
    Tick();
    std::set<uint8_t> reasons;
    for (const profd_visit& visit : found_) reasons.insert(visit.reason);
    return reasons;
  }
};

// Two processes on one CPU, where the tick runs too: it must not take itself for the occupant.
TEST_F(OccupantKernelTest, AProcessThatIsNotWatchedHasTheCpu) {
  START_OR_SKIP(WithSwitch(true));
  const int cpu = FirstCpu();
  const OnCpu pinned(cpu);
  const Child victim([cpu](Child& me) {
    me.Signal();
    me.Wait();
    Compute(me, cpu, "victim");
  });
  const Child hog([cpu](Child& me) { Compute(me, cpu, "hog"); });
  victim.Wait();
  victim.AwaitSleep();
  Mark(victim);
  hog.Wait();
  victim.Signal();
  victim.Wait();
  int seen = 0;
  EXPECT_TRUE(Eventually([&] {
    TickAfterNap();
    const profd_object object = Occupant();
    if (object.kind == PROFD_OBJECT_OCCUPANT && object.number == static_cast<uint32_t>(hog.pid())) {
      EXPECT_STREQ(object.name, "hog");
      EXPECT_EQ(object.flags & PROFD_OBJECT_KERNEL, 0);
      ++seen;
    }
    EXPECT_NE(object.number, static_cast<uint32_t>(getpid())) << "it came after the instant";
    EXPECT_NE(object.number, static_cast<uint32_t>(victim.pid()));
    return seen >= 20;
  }));
}

TEST_F(OccupantKernelTest, StoppedTracedAndFrozenAreReasons) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    me.Signal();
    WaitForever();
  });
  child.Wait();
  child.AwaitSleep();
  Mark(child);
  EXPECT_THAT(Reasons(), Contains(PROFD_REASON_SIGNAL));

  ASSERT_EQ(kill(child.pid(), SIGSTOP), 0);
  ASSERT_EQ(waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  EXPECT_TRUE(Eventually([&] { return Reasons().contains(PROFD_REASON_STOPPED); }));
  ASSERT_EQ(kill(child.pid(), SIGCONT), 0);
  EXPECT_TRUE(Eventually([&] { return Reasons().contains(PROFD_REASON_SIGNAL); }));

  ASSERT_EQ(ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr), 0);
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(child.pid(), nullptr, 0), child.pid());
  EXPECT_TRUE(Eventually([&] { return Reasons().contains(PROFD_REASON_TRACED); }));
  ASSERT_EQ(ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr), 0);
  EXPECT_TRUE(Eventually([&] { return Reasons().contains(PROFD_REASON_SIGNAL); }));

  char root[] = "/tmp/profd-cgroup-XXXXXX";
  ASSERT_NE(mkdtemp(root), nullptr);
  ASSERT_EQ(mount("none", root, "cgroup2", 0, nullptr), 0);
  const std::string cgroup = std::string(root) + "/profd-test-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(cgroup.c_str(), 0755), 0);
  std::ofstream(cgroup + "/cgroup.procs") << child.pid() << std::flush;
  std::ofstream(cgroup + "/cgroup.freeze") << 1 << std::flush;
  EXPECT_TRUE(Eventually([&] { return Reasons().contains(PROFD_REASON_FROZEN); }));
  std::ofstream(cgroup + "/cgroup.freeze") << 0 << std::flush;
  EXPECT_TRUE(Eventually([&] { return Reasons().contains(PROFD_REASON_SIGNAL); }));
  std::ofstream(std::string(root) + "/cgroup.procs") << child.pid() << std::flush;
  EXPECT_EQ(rmdir(cgroup.c_str()), 0);
  EXPECT_EQ(umount(root), 0);
  EXPECT_EQ(rmdir(root), 0);
}

}  // namespace
}  // namespace profd
