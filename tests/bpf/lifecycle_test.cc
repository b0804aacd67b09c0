// Marking, birth, exit, and what the kernel side leaves behind.
#include <bpf/bpf.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/kernel/load.h"
#include "daemon/source/thread_totals.h"
#include "daemon/target/procfs.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/support/end_with.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Kernel objects that this process holds by a descriptor: "prog_id 12".
std::set<std::pair<std::string, uint32_t>> HeldObjects() {
  std::set<std::pair<std::string, uint32_t>> held;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fdinfo"), closedir);
  while (const dirent* entry = readdir(directory.get())) {
    const auto info = ReadWholeFile(absl::StrCat("/proc/self/fdinfo/", entry->d_name));
    if (!info.ok()) continue;
    for (const absl::string_view line : absl::StrSplit(*info, '\n')) {
      const std::vector<std::string> parts = absl::StrSplit(line, ":\t");
      uint32_t id = 0;
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &id)) continue;
      if (parts[0] == "prog_id" || parts[0] == "link_id" || parts[0] == "map_id") {
        held.emplace(parts[0], id);
      }
    }
  }
  return held;
}

bool Exists(const std::pair<std::string, uint32_t>& object) {
  const auto& [kind, id] = object;
  const UniqueFd fd(kind == "prog_id"   ? bpf_prog_get_fd_by_id(id)
                    : kind == "link_id" ? bpf_link_get_fd_by_id(id)
                                        : bpf_map_get_fd_by_id(id));
  return fd.ok() || errno != ENOENT;
}

size_t Count(const std::set<std::pair<std::string, uint32_t>>& objects, const char* kind) {
  return static_cast<size_t>(std::count_if(objects.begin(), objects.end(),
                                           [&](const auto& o) { return o.first == kind; }));
}

// Other daemons may come and go meanwhile: what counts is that our own objects do not outlive us.
// With all layers, as profd loads them.
TEST_F(KernelTest, NothingIsLeftBehind) {
  for (const bool switch_layer : {true, false}) {
    const auto before = HeldObjects();
    START_OR_SKIP({.switch_layer = switch_layer, .visits_all = true});
    const auto held = HeldObjects();
    const size_t links = switch_layer ? 13 : 12;
    EXPECT_EQ(Count(held, "link_id") - Count(before, "link_id"), links);
    // Not attached yet: three of the heap, one of mapping calls, one of malloc, one of page faults,
    // one of the CPUs' clocks, five of disk requests, two of ext4's syncs, one of wake-ups; those
    // at system calls that sync where the kernel lets them. The tick by list is run, never
    // attached; that of stacks of switches goes on after another one.
    const size_t programs =
        links + 16 + (HasSyncCalls() ? kSyncCallPrograms : 0) + (kernel_->ticks_by_list() ? 1 : 0);
    EXPECT_EQ(Count(held, "prog_id") - Count(before, "prog_id"), programs);
    for (const auto& object : held) EXPECT_TRUE(Exists(object)) << object.first << object.second;
    kernel_.reset();
    EXPECT_EQ(HeldObjects(), before);
    for (const auto& object : held) {
      EXPECT_TRUE(Eventually([&] { return !Exists(object); }))
          << object.first << " " << object.second << " is still there";
    }
  }
}

TEST_F(KernelTest, MarkIsInheritedAndTheBooksAddUp) {
  START_OR_SKIP();
  constexpr int kNaps = 20;
  constexpr int64_t kSpun = 20 * kMillisecond;
  const Shared<int64_t> waits;
  Child child([&](Child& me) {
    me.Wait();
    std::thread napper([&] {
      pthread_setname_np(pthread_self(), "napper");
      *waits = NapOften(kNaps, 2 * kMillisecond);
      WaitForever();
    });
    std::thread spinner([&] {
      pthread_setname_np(pthread_self(), "spinner");
      while (ThreadCpuNs() < kSpun) {
      }
      WaitForever();
    });
    const pid_t parent = getpid();
    if (fork() == 0) {
      EndWith(parent);
      pthread_setname_np(pthread_self(), "grandchild");
      WaitForever();
    }
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_THAT(live_, SizeIs(1));
  EXPECT_EQ(live_[0].pid, child.pid());
  EXPECT_EQ(live_[0].born, 0);
  child.Signal();
  child.Wait();
  // Drained while they work, until all of them wait for ever.
  ASSERT_TRUE(Eventually([&] {
    Drain(/*every_thread=*/true);
    return live_.size() == 4 && std::all_of(live_.begin(), live_.end(), [](const auto& record) {
             return record.ledger.phase == PROFD_PHASE_BLOCKED &&
                    record.ledger.reason == PROFD_REASON_SIGNAL;
           });
  }));
  for (const profd_thread_record& record : live_) {
    EXPECT_EQ(record.target_id, kTarget);
    EXPECT_EQ(record.born, record.tid != child.pid());
    // All runs are settled, so our sum is the kernel's, to the nanosecond.
    if (record.born == 0) continue;
    EXPECT_EQ(record.ledger.exec_runtime, record.books.exec_runtime);
  }
  const LedgerDelta& napper = Named("napper").sum;
  EXPECT_GT(*waits, 0);
  EXPECT_EQ(napper.waits[PROFD_REASON_SLEEP], *waits);
  EXPECT_EQ(accounts_->switches_unseen(), 0U);
  EXPECT_GE(napper.off_ns[PROFD_REASON_SLEEP] + napper.off_ns[PROFD_REASON_RUNQUEUE],
            kNaps * 2 * kMillisecond);
  // The clock of a thread's CPU time is the kernel's book, and the last run is in it.
  EXPECT_GE(Named("spinner").sum.on_cpu_ns, kSpun);
  EXPECT_EQ(Named("napper").info.pid, child.pid());
  EXPECT_NE(Named("grandchild").info.pid, child.pid());
  EXPECT_EQ(Loss(PROFD_LOSS_THREAD_STORAGE), 0U);
}

TEST_F(KernelTest, MarkingTwiceChangesNothing) {
  START_OR_SKIP();
  const Child child([](Child&) { WaitForever(); });
  Mark(child);
  ASSERT_THAT(live_, SizeIs(1));
  const profd_thread_record first = live_[0];
  Mark(child);
  Drain(/*every_thread=*/true);
  ASSERT_THAT(live_, SizeIs(1));
  EXPECT_EQ(live_[0].thread_id, first.thread_id);
  EXPECT_EQ(live_[0].begin, first.begin);
}

TEST_F(KernelTest, ProcessThatIsGoneCannotBeMarked) {
  START_OR_SKIP();
  const pid_t pid = fork();
  if (pid == 0) WaitForever();
  const auto pidfd = OpenPidfd(pid);
  ASSERT_TRUE(pidfd.ok());
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_TRUE(absl::IsNotFound(kernel_->Mark(pidfd->get(), kTarget).status()));
}

TEST_F(KernelTest, ThreadIsAnnouncedAtItsBirth) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    me.Wait();
    std::thread([] { WaitForever(); }).detach();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  std::vector<profd_born> born;
  const auto take = [&] {
    born.clear();
    kernel_->TakeBorn([&](const profd_born& thread) { born.push_back(thread); });
  };
  take();
  EXPECT_THAT(born, IsEmpty());
  child.Signal();
  child.Wait();
  take();
  Drain();
  ASSERT_THAT(born, SizeIs(1));
  ASSERT_THAT(live_, SizeIs(2));
  EXPECT_TRUE(std::any_of(live_.begin(), live_.end(), [&](const profd_thread_record& record) {
    return record.thread_id == born[0].thread_id && record.kernel_tid == born[0].kernel_tid;
  }));
  take();
  EXPECT_THAT(born, IsEmpty());
}

TEST_F(KernelTest, ThreadThatLivesBetweenDrainsLeavesItsAccount) {
  START_OR_SKIP();
  constexpr int kNaps = 3;
  const Shared<int64_t> waits;
  const Child child([&](Child& me) {
    me.Wait();
    std::thread([&] {
      pthread_setname_np(pthread_self(), "brief");
      *waits = NapOften(kNaps, 2 * kMillisecond);
    }).join();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  child.Signal();
  child.Wait();
  // The thread is joined before its last switch.
  ASSERT_TRUE(Eventually([&] {
    Poll();
    return Dead() == 1;
  }));
  // Till then, nobody would find its time: it is told as its exit begins, too.
  ASSERT_THAT(last_.begin()->second, SizeIs(2));
  const profd_thread_record& exiting = last_.begin()->second[0];
  EXPECT_EQ(exiting.type, uint32_t{PROFD_RECORD_EXITING});
  EXPECT_EQ(Accounted(ExactTotals(exiting)), ExactTotals(exiting).wall_ns);
  EXPECT_EQ(ExactTotals(exiting).waits[PROFD_REASON_SLEEP], *waits);
  const profd_thread_record& dead = last_.begin()->second[1];
  EXPECT_GT(dead.now, exiting.now);
  EXPECT_EQ(dead.pid, child.pid());
  EXPECT_NE(dead.tid, child.pid());
  EXPECT_EQ(CommToString(dead.comm), "brief");
  EXPECT_GT(*waits, 0);
  EXPECT_EQ(dead.target_id, kTarget);
  EXPECT_EQ(dead.born, 1);
  const LedgerDelta totals = ExactTotals(dead);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);
  EXPECT_GE(totals.wall_ns, kNaps * 2 * kMillisecond);
  EXPECT_EQ(totals.waits[PROFD_REASON_SLEEP], *waits);
  EXPECT_EQ(dead.ledger.exec_runtime, dead.books.exec_runtime);

  Drain();
  EXPECT_EQ(Named("brief").drains, 1);
  EXPECT_TRUE(Named("brief").info.exited);
  EXPECT_EQ(Named("brief").sum.wall_ns, ExactTotals(dead).wall_ns);
  for (int i = 0; i < 3; ++i) Drain();
  EXPECT_EQ(accounts_->vanished(), 0U);
}

int64_t ClockNs(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

class StormTest : public KernelTest {
 protected:
  // Runs of programs that the kernel skipped.
  std::string MissesText() const {
    std::string text;
    for (const ProgramMisses& program : kernel_->Misses()) {
      if (program.recursion_misses == 0) continue;
      absl::StrAppend(&text, program.name, " ", program.recursion_misses, " ");
    }
    return text;
  }
};

// More threads than are told of one by one, before any drain. The kernel's account of the process
// is what its threads had as they ended.
TEST_F(StormTest, ThreadsThatNobodyKnewAreInTheSums) {
  constexpr int kThreads = 3 * PROFD_NEWS_BURST;
  START_OR_SKIP();
  const Shared<int64_t> waits, cpu_ns;
  const Child child([&](Child& me) {
    me.Wait();
    for (int i = 0; i < kThreads; ++i) {
      std::thread([&] {
        pthread_setname_np(pthread_self(), "stormy");
        const int64_t begin = ThreadCpuNs();
        while (ThreadCpuNs() - begin < kMillisecond / 4) {
        }
        *waits += NapOften(1, kMillisecond / 20);
      }).join();
    }
    *cpu_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID) - ThreadCpuNs();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  child.Signal();
  child.Wait();
  // The last ones are joined before their last switch.
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return Dead() + exited_threads_ == kThreads;
  })) << Dead()
      << " told of, " << exited_threads_ << " folded, " << last_.size() << " in all, "
      << Loss(PROFD_LOSS_THREAD_STORAGE) << " not marked; skipped: " << MissesText();
  EXPECT_GT(exited_threads_, 0);
  LedgerDelta sum;
  int rows = 0;
  for (const auto& [id, account] : by_thread_) {
    if (account.info.tid == child.pid()) continue;
    rows += account.info.name == kExitedThreads ? 1 : 0;
    EXPECT_EQ(account.info.pid, child.pid());
    EXPECT_TRUE(account.info.exited);
    EXPECT_EQ(Accounted(account.sum), account.sum.wall_ns);
    sum.on_cpu_ns += account.sum.on_cpu_ns;
    sum.wall_ns += account.sum.wall_ns;
    sum.waits[PROFD_REASON_SLEEP] += account.sum.waits[PROFD_REASON_SLEEP];
    sum.off_ns[PROFD_REASON_SLEEP] += account.sum.off_ns[PROFD_REASON_SLEEP];
  }
  EXPECT_EQ(rows, 1);
  // The kernel has what each had shortly before its last switch.
  EXPECT_GE(sum.on_cpu_ns, *cpu_ns);
  EXPECT_NEAR(static_cast<double>(sum.on_cpu_ns), static_cast<double>(*cpu_ns),
              kThreads * 20'000.0);
  EXPECT_GE(sum.wall_ns, sum.on_cpu_ns);
  EXPECT_EQ(sum.waits[PROFD_REASON_SLEEP], *waits);
  EXPECT_EQ(Loss(PROFD_LOSS_RING_FULL_EXIT), 0U);
  EXPECT_EQ(accounts_->vanished(), 0U);
}

// A drain lists a thread a moment before the program that marks it runs.
TEST_F(StormTest, DrainsThatMeetNewThreadsCountThemOnce) {
  constexpr int64_t kThreads = 20'000;
  START_OR_SKIP();
  const Shared<std::atomic<bool>> over;
  const Child child([&](Child& me) {
    me.Wait();
    for (int64_t i = 0; i < kThreads; ++i) std::thread([] {}).join();
    *over = true;
    WaitForever();
  });
  Mark(child);
  child.Signal();
  while (!*over) Drain();
  EXPECT_TRUE(Eventually([&] {
    Drain();
    return Dead() + exited_threads_ >= kThreads;
  }));
  for (int i = 0; i < 3; ++i) Drain();
  EXPECT_EQ(Dead() + exited_threads_, kThreads) << MissesText();
  EXPECT_EQ(Loss(PROFD_LOSS_THREAD_STORAGE), 0U);
  EXPECT_EQ(accounts_->vanished(), 0U);
}

// The name of a process is all that is kept of it; those beyond the table share a row.
TEST_F(KernelTest, NamesBeyondTheTableShareARow) {
  // Nobody is told of one by one, however slowly they are born.
  KernelOptions options = kCore;
  options.limits.news = 0;
  START_OR_SKIP(options);
  constexpr int kProcesses = 1024 + 200;
  const Child child([&](Child& me) {
    me.Wait();
    // Faster than PROFD_NEWS_A_SECOND on a busy machine, too: no copy of the memory map.
    for (int i = 0; i < kProcesses; ++i) {
      const std::string name = absl::StrCat("name-", i);
      const pid_t pid = vfork();
      if (pid == 0) {
        prctl(PR_SET_NAME, name.c_str());
        _exit(0);
      }
      waitpid(pid, nullptr, 0);
    }
    me.Signal();
    WaitForever();
  });
  Mark(child);
  child.Signal();
  child.Wait();
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return Dead() + exited_threads_ == kProcesses;
  })) << Dead()
      << " told of, " << exited_threads_ << " folded";
  std::set<std::string> names;
  for (const auto& [id, account] : by_thread_) {
    if (account.info.name == kExitedThreads) names.insert(account.info.process);
  }
  EXPECT_GT(names.size(), 1U);
  EXPECT_TRUE(names.contains(ExitedThreads::kOthers));
  EXPECT_EQ(accounts_->vanished(), 0U);
}

// All end at once, and nobody reads the ring meanwhile.
TEST_F(KernelTest, LastAccountsThatFindTheRingFullAreKept) {
  constexpr int64_t kThreads = 200;
  KernelOptions options = kCore;
  options.limits.ring = 4096;
  START_OR_SKIP(options);
  const Child child([&](Child&) {
    for (int64_t i = 1; i < kThreads; ++i) std::thread(WaitForever).detach();
    WaitForever();
  });
  ASSERT_TRUE(Eventually([&] { return CountThreads(child) == kThreads; }));
  Mark(child);
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return accounts_->live_threads() == kThreads;
  }));
  ASSERT_EQ(kill(child.pid(), SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return Dead() == kThreads;
  })) << Dead();
  EXPECT_EQ(accounts_->live_threads(), 0U);
  EXPECT_EQ(Loss(PROFD_LOSS_RING_FULL_EXIT), 0U);
}

// Nobody waits for it, so it stays in the list of tasks.
TEST_F(KernelTest, ZombieIsNotCountedOn) {
  for (const bool switch_layer : {true, false}) {
    START_OR_SKIP(WithSwitch(switch_layer));
    by_thread_.clear();
    last_.clear();
    const Child child([](Child& me) {
      me.Wait();
      pthread_setname_np(pthread_self(), "zombie");
    });
    Mark(child);
    child.Signal();
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
    // Without the layer a drain closes the account, as nobody frees the thread.
    ASSERT_TRUE(Eventually([&] {
      Drain();
      return Named("zombie").info.exited;
    }));
    ASSERT_THAT(last_, SizeIs(1));
    const profd_thread_record& final = last_.begin()->second.back();
    EXPECT_EQ(final.type, uint32_t{PROFD_RECORD_DEAD});
    EXPECT_THAT(last_.begin()->second, SizeIs(2));
    const LedgerDelta sum = Named("zombie").sum;
    // Without its last switch the account may be closed a little after the start of the exit.
    EXPECT_GE(sum.wall_ns, static_cast<int64_t>(final.now - final.begin) - 100'000);
    if (switch_layer) {
      // By the scheduler's clock, whose distance from ours is known to some microseconds.
      EXPECT_NEAR(static_cast<double>(sum.wall_ns), static_cast<double>(final.now - final.begin),
                  100'000);
    }
    for (int i = 0; i < 4; ++i) Drain();
    EXPECT_EQ(Named("zombie").sum.wall_ns, sum.wall_ns);
    EXPECT_EQ(accounts_->live_threads(), 0U);
    EXPECT_EQ(accounts_->vanished(), 0U);
    kernel_.reset();
  }
}

// Whether such a link sees all threads is found out without a probe (kernel_trials.cc).
TEST_F(KernelTest, OneLinkTakesTheProbesOfAProcess) {
  REQUIRE_FACT("kernel.6_10");
  EXPECT_TRUE(HasMultiProbes());
}

}  // namespace
}  // namespace profd
