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

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

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

// The occupants that many ticks found. Printed in a line, whatever they are.
class Seen {
 public:
  void Add(const profd_object& object) {
    Process& process = processes_[object.number];
    process.object = object;
    ++process.times;
  }
  int Times(pid_t pid) const {
    const auto process = processes_.find(static_cast<uint32_t>(pid));
    return process == processes_.end() ? 0 : process->second.times;
  }
  // As the last tick found it; of kind 0 if none did.
  profd_object Last(pid_t pid) const {
    const auto process = processes_.find(static_cast<uint32_t>(pid));
    return process == processes_.end() ? profd_object{} : process->second.object;
  }

  friend std::ostream& operator<<(std::ostream& out, const Seen& seen) {
    constexpr size_t kMost = 8;
    std::vector<Process> often;
    for (const auto& [number, process] : seen.processes_) often.push_back(process);
    std::sort(often.begin(), often.end(),
              [](const Process& a, const Process& b) { return a.times > b.times; });
    for (size_t i = 0; i < std::min(often.size(), kMost); ++i) {
      const profd_object& object = often[i].object;
      out << "kind " << int{object.kind} << " "
          << std::string(object.name, strnlen(object.name, sizeof(object.name))) << " ("
          << object.number << ") " << often[i].times << " times; ";
    }
    return out << "of " << often.size() << " occupants";
  }

 private:
  struct Process {
    profd_object object{};
    int times = 0;
  };
  std::map<uint32_t, Process> processes_;  // by PID; 0: others, and ticks that found nobody
};

class OccupantKernelTest : public KernelTest {
 protected:
  // A tick at an instant at which this thread did not run.
  void TickAfterNap() {
    const int64_t instant = MonotonicNs() + kMillisecond / 2;
    Nap(kMillisecond);
    TickAt(instant);
  }

  void TickAt(int64_t instant) {
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
  Seen seen;
  EXPECT_TRUE(Eventually([&] {
    TickAfterNap();
    if (HasFatalFailure()) return true;
    seen.Add(Occupant());
    return seen.Times(hog.pid()) >= 20 || seen.Times(getpid()) > 0 || seen.Times(victim.pid()) > 0;
  })) << seen;
  EXPECT_EQ(seen.Times(getpid()), 0) << "it came after the instant: " << seen;
  EXPECT_EQ(seen.Times(victim.pid()), 0) << seen;
  const profd_object found = seen.Last(hog.pid());
  EXPECT_STREQ(found.name, "hog");
  EXPECT_EQ(found.flags & PROFD_OBJECT_KERNEL, 0);
}

// The calling thread is a real-time one for as long as this lives: no other has its CPU, unless it
// sleeps. One of the same priority waits until then.
class RealTime {
 public:
  RealTime() {
    const sched_param priority{.sched_priority = 1};
    EXPECT_EQ(sched_setscheduler(0, SCHED_FIFO, &priority), 0);
  }
  ~RealTime() {
    const sched_param priority{};
    sched_setscheduler(0, SCHED_OTHER, &priority);
  }
  RealTime(const RealTime&) = delete;
  RealTime& operator=(const RealTime&) = delete;
};

// What a child does in turns: it works, and naps.
constexpr int64_t kTurnOfWork = 3 * kMillisecond, kTurnOfNap = 10 * kMillisecond;
struct Turn {
  std::atomic<int64_t> begin_ns, end_ns;  // of the last work
};

void WorkInTurns(Turn& turn) {
  while (true) {
    turn.begin_ns = MonotonicNs();
    while (MonotonicNs() < turn.begin_ns + kTurnOfWork) continue;
    turn.end_ns = MonotonicNs();
    Nap(kTurnOfNap);
  }
}

// At the tick's instant the child works, and the tick has to wait until it naps.
TEST_F(OccupantKernelTest, AThreadThatTheTickWaitedForIsNotSeenInItsNextWait) {
  START_OR_SKIP(WithSwitch(true));
  const int cpu = FirstCpu();
  const OnCpu pinned(cpu);
  const Shared<Turn> turn;
  const Child child([&](Child& me) {
    const OnCpu there(cpu);
    const RealTime real_time;
    me.Signal();
    WorkInTurns(*turn);
  });
  child.Wait();
  Mark(child);
  const RealTime real_time;
  int waited = 0, later = 0, tries = 0;
  EXPECT_TRUE(Eventually([&] {
    const int64_t nap = (1 + tries++ % 13) * kMillisecond;
    const int64_t instant = MonotonicNs() + nap;
    Nap(nap);
    TickAt(instant);
    const int64_t end = turn->end_ns;
    const auto naps = [&] { return MonotonicNs() < end + kTurnOfNap / 2; };
    if (instant < turn->begin_ns || instant > end - kTurnOfWork / 3 || !naps()) return false;
    EXPECT_THAT(found_, IsEmpty()) << "it worked at that instant";
    ++waited;
    TickAt(MonotonicNs());
    if (naps()) later += !found_.empty();
    return waited >= 20 && later >= 10;
  })) << waited
      << " ticks that waited, " << later << " that did not";
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
