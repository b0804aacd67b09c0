#include "daemon/memory/memory_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "tests/support/machine.h"
#include "tests/unit/fake_proc.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kKiB = 1024;
constexpr int64_t kTickNs = 10'000'000;

class MemoryWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/profd-watch-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    ASSERT_EQ(chmod(name, 0755), 0);
    proc_ = std::make_unique<FakeProc>(folder_ + "/proc");
    Start(512);
  }
  void TearDown() override {
    watch_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Start(size_t limit, int64_t rest_per_stat = 0) {
    watch_ = std::make_unique<MemoryWatch>(
        &cpu_use_,
        MemoryWatchOptions{
            .proc = proc_->path(), .process_limit = limit, .rest_per_stat = rest_per_stat});
  }
  // What was read of these processes, now.
  std::vector<ProcessHistory> Read(const std::set<int32_t>& pids) {
    // Another set first, so that nothing that was read before will do.
    watch_->KeepOnly({});
    watch_->KeepOnly(pids);
    watch_->Refresh();
    return Select();
  }
  std::vector<ProcessHistory> Select() {
    return watch_->timeline().Select({.begin_ns = 0,
                                      .end_ns = std::numeric_limits<int64_t>::max(),
                                      .matches = [](const WatchedProcess&) { return true; }});
  }

  std::string folder_;
  std::unique_ptr<FakeProc> proc_;
  CpuUse cpu_use_;
  std::unique_ptr<MemoryWatch> watch_;
};

TEST_F(MemoryWatchTest, ReadsWhatProcSays) {
  proc_->Set(11, {});
  proc_->Write("cgroup/app/memory.current", "2097152\n");
  proc_->Write("cgroup/app/memory.events", "high 1\nmax 2\noom_kill 3\n");
  proc_->Write("cgroup/memory.max", "8388608\n");
  const int64_t before = MonotonicNs();
  const std::vector<ProcessHistory> histories = Read({11});
  ASSERT_THAT(histories, SizeIs(1));
  const WatchedProcess& process = histories[0].process;
  EXPECT_EQ(process.pid, 11);
  EXPECT_EQ(process.name, "server");
  EXPECT_EQ(process.start_ns, 4200 * (1'000'000'000 / sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(process.cgroup.version, 2);
  EXPECT_EQ(process.cgroup.path, "/app");
  EXPECT_EQ(process.note, "");
  EXPECT_FALSE(process.ended);
  ASSERT_FALSE(histories[0].points.empty());
  const MemoryPoint& point = histories[0].points.back();
  EXPECT_GE(point.time_ns, before / 1'000'000 * 1'000'000);
  EXPECT_LE(point.time_ns, MonotonicNs());
  EXPECT_EQ(point.rss, 1000 * kKiB);
  EXPECT_EQ(point.anon, 600 * kKiB);
  EXPECT_EQ(point.file, 300 * kKiB);
  EXPECT_EQ(point.shmem, 100 * kKiB);
  EXPECT_EQ(point.swap, 0);
  EXPECT_EQ(point.page_tables, 20 * kKiB);
  EXPECT_EQ(point.threads, 3);
  EXPECT_EQ(point.minor_faults, 10);
  EXPECT_EQ(point.major_faults, 2);
  EXPECT_EQ(point.pss, 800 * kKiB);
  ASSERT_TRUE(point.pss_time_ns.has_value());
  EXPECT_LE(*point.pss_time_ns, MonotonicNs());
  EXPECT_EQ(point.cgroup.current, 2 << 20);
  EXPECT_EQ(point.cgroup.limit, 8 << 20);
  EXPECT_EQ(point.cgroup.oom_kills, 3);
  EXPECT_EQ(point.cgroup.limit_hits, 2);
  EXPECT_EQ(point.cgroup.high_hits, 1);
  EXPECT_EQ(point.allocated, std::nullopt);
  EXPECT_GT(cpu_use_.memory, 0);
  EXPECT_EQ(watch_->unwatched(), 0u);
}

TEST_F(MemoryWatchTest, WhatIsMissingIsAbsentNotZero) {
  proc_->Set(11, {});
  proc_->Write("11/status", "Name:\tserver\nVmRSS:\t500 kB\n");
  proc_->Write("11/cgroup", "");
  std::filesystem::remove(proc_->path() + "/11/smaps_rollup");
  const std::vector<ProcessHistory> histories = Read({11});
  ASSERT_THAT(histories, SizeIs(1));
  const MemoryPoint& point = histories[0].points.back();
  EXPECT_EQ(point.rss, 500 * kKiB);
  EXPECT_EQ(point.anon, std::nullopt);
  EXPECT_EQ(point.swap, std::nullopt);
  EXPECT_EQ(point.threads, std::nullopt);
  EXPECT_EQ(point.pss, std::nullopt);
  EXPECT_EQ(point.cgroup.current, std::nullopt);
  EXPECT_EQ(histories[0].process.cgroup.version, 0);
}

TEST_F(MemoryWatchTest, WhatHasNoMemoryHasNoPoints) {
  proc_->Set(2, {.name = "kthreadd", .flags = 0x208040});
  proc_->Set(3, {.name = "zombie"});
  proc_->Write("3/status", "Name:\tzombie\nState:\tZ (zombie)\nThreads:\t1\n");
  proc_->Set(4, {});
  proc_->Write("4/stat", "4 (cut");
  proc_->Set(5, {});
  const std::vector<ProcessHistory> histories = Read({2, 3, 4, 5, 6});
  ASSERT_THAT(histories, SizeIs(1));
  EXPECT_EQ(histories[0].process.pid, 5);
}

TEST_F(MemoryWatchTest, AProcessThatIsGoneKeepsItsPoints) {
  proc_->Set(11, {});
  proc_->Set(12, {});
  ASSERT_THAT(Read({11, 12}), SizeIs(2));
  proc_->Remove(11);
  const std::vector<ProcessHistory> histories = Read({12});
  ASSERT_THAT(histories, SizeIs(2));
  EXPECT_TRUE(histories[0].process.ended);
  EXPECT_EQ(histories[0].points.back().rss, 1000 * kKiB);
  EXPECT_FALSE(histories[1].process.ended);
}

TEST_F(MemoryWatchTest, APidThatIsUsedAgainIsAnotherProcess) {
  proc_->Set(11, {.name = "first"});
  watch_->AddHeap(11, {.allocated = 500, .freed = 200});
  watch_->AddHeap(11, {.allocated = 50, .freed = 20});
  watch_->KeepOnly({11});  // begins a round of its own
  watch_->Refresh();
  std::vector<ProcessHistory> histories = Select();
  ASSERT_THAT(histories, SizeIs(1));
  EXPECT_EQ(histories[0].points.back().allocated, 550);
  EXPECT_EQ(histories[0].points.back().freed, 220);
  proc_->Set(11, {.name = "second", .start = 4300, .rss_kb = 2000});
  watch_->KeepOnly({11, 99});
  watch_->Refresh();
  histories = Select();
  ASSERT_THAT(histories, SizeIs(2));
  EXPECT_EQ(histories[0].process.name, "first");
  EXPECT_TRUE(histories[0].process.ended);
  EXPECT_EQ(histories[0].points.back().rss, 1000 * kKiB);
  EXPECT_EQ(histories[1].process.name, "second");
  EXPECT_EQ(histories[1].process.start_ns - histories[0].process.start_ns, 100 * kTickNs);
  EXPECT_FALSE(histories[1].process.ended);
  EXPECT_EQ(histories[1].points.back().rss, 2000 * kKiB);
  EXPECT_EQ(histories[1].points.back().allocated, std::nullopt) << "of the one before";
}

// Allocated less freed is what is live if that is known of all threads of the program.
TEST_F(MemoryWatchTest, TheLiveHeapIsToldWhereItIsKnown) {
  constexpr int64_t kMiB = 1 << 20;
  const auto read = [&] {
    watch_->KeepOnly({11, 12});
    watch_->KeepOnly({11});  // begins a round of its own
    watch_->Refresh();
    return Select()[0].points.back().live;
  };
  proc_->Set(11, {});
  watch_->KeepOnly({11});
  watch_->AddHeap(11, {.allocated = 50 * kMiB, .freed = 20 * kMiB, .before = 7 * kMiB});
  EXPECT_EQ(read(), std::nullopt) << "threads may have ended before";
  watch_->AddHeap(11, {.all_known = true});
  EXPECT_EQ(read(), 37 * kMiB);
  watch_->SetUnread({11});
  EXPECT_EQ(read(), std::nullopt);
  watch_->SetUnread({12});
  EXPECT_EQ(read(), 37 * kMiB);
  watch_->AddHeap(11, {.quiet = 10});
  EXPECT_EQ(read(), 37 * kMiB);
  watch_->AddHeap(11, {.quiet = 10});
  EXPECT_EQ(read(), std::nullopt) << "of threads without an event more may be missing than 1 MiB";
  // Another program begins with nothing.
  watch_->OnExec(11);
  watch_->AddHeap(11, {.allocated = 3 * kMiB, .freed = kMiB});
  EXPECT_EQ(read(), std::nullopt) << "threads may have ended before";
  watch_->AddHeap(11, {.all_known = true});
  EXPECT_EQ(read(), 2 * kMiB);
  watch_->AddHeap(11, {.lost = true});
  EXPECT_EQ(read(), std::nullopt);
  watch_->OnExec(11);
  watch_->AddHeap(11, {.allocated = 5 * kMiB, .all_known = true});
  EXPECT_EQ(read(), 5 * kMiB);
  watch_->DoubtHeaps();
  EXPECT_EQ(read(), std::nullopt);
  // A child has what its parent had, of all threads of that.
  watch_->OnExec(11);
  watch_->AddHeap(11, {.all_known = true});
  EXPECT_EQ(read(), 0);
  proc_->Set(11, {.flags = 0x400140});
  EXPECT_EQ(read(), std::nullopt);
}

TEST_F(MemoryWatchTest, TheLargestAreWatchedWhereThereAreTooMany) {
  Start(2);
  for (int32_t pid = 11; pid <= 15; ++pid) proc_->Set(pid, {.rss_kb = 1000 * (pid % 3 + 1)});
  proc_->Set(2, {.flags = 0x208040});
  proc_->Write("2/statm", "0 0 0 0 0 0 0\n");
  const std::vector<ProcessHistory> histories = Read({2, 11, 12, 13, 14, 15});
  std::vector<int32_t> pids;
  for (const ProcessHistory& history : histories) pids.push_back(history.process.pid);
  // 11 and 14 have 3,000 kB, 12 and 15 1,000, 13 2,000.
  EXPECT_THAT(pids, ElementsAre(11, 14));
  EXPECT_EQ(watch_->unwatched(), 3u);
  Read({11, 12});
  EXPECT_EQ(watch_->unwatched(), 0u);
}

TEST_F(MemoryWatchTest, SaysWhichCapabilityPssNeeds) {
  REQUIRE_FACT("root");
  proc_->Set(11, {});
  ASSERT_EQ(chmod((proc_->path() + "/11/smaps_rollup").c_str(), 0), 0);
  ASSERT_EQ(seteuid(65534), 0);
  const std::vector<ProcessHistory> histories = Read({11});
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_THAT(histories, SizeIs(1));
  EXPECT_EQ(histories[0].points.back().pss, std::nullopt);
  EXPECT_EQ(histories[0].points.back().rss, 1000 * kKiB);
  EXPECT_EQ(histories[0].process.note,
            "PSS unknown: reading /proc/11/smaps_rollup needs CAP_SYS_PTRACE");
}

#if !PROFD_SANITIZED  // a shadow of terabytes hides what is there
TEST_F(MemoryWatchTest, PssOfLargeProcessesIsEstimated) {
  watch_ = std::make_unique<MemoryWatch>(&cpu_use_, MemoryWatchOptions{.largest_read_pss = 0});
  const std::vector<ProcessHistory> histories = Read({getpid()});
  ASSERT_THAT(histories, SizeIs(1));
  const MemoryPoint& point = histories[0].points.back();
  ASSERT_TRUE(point.pss && point.pss_error && point.pss_time_ns);
  EXPECT_LE(*point.pss - *point.pss_error, *point.rss);
  EXPECT_GT(*point.pss, *point.rss / 4);
  EXPECT_EQ(histories[0].process.note, "");
}
#endif

TEST_F(MemoryWatchTest, LargeMapsAreNotHeld) {
  proc_->Set(11, {.rss_kb = int64_t{5} << 20});
  const std::vector<ProcessHistory> histories = Read({11});
  ASSERT_THAT(histories, SizeIs(1));
  EXPECT_EQ(histories[0].points.back().pss, std::nullopt) << "read from smaps_rollup";
}

TEST_F(MemoryWatchTest, PausedItReadsNothing) {
  proc_->Set(11, {});
  watch_->SetOn(false);
  watch_->KeepOnly({11});
  watch_->Refresh();  // returns, although nothing is read
  EXPECT_THAT(Select(), IsEmpty());
  watch_->SetOn(true);
  watch_->Refresh();
  EXPECT_THAT(Select(), SizeIs(1));
}

TEST_F(MemoryWatchTest, FaultsThatTakeLongToReadAreReadMoreRarely) {
  for (const bool rests : {false, true}) {
    SCOPED_TRACE(rests);
    Start(512, rests ? int64_t{1} << 30 : 0);
    proc_->Set(11, {.rss_kb = 1000});
    watch_->KeepOnly({11});
    watch_->Refresh();
    ASSERT_THAT(Select(), SizeIs(1));
    // Readings of one millisecond are one point.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    proc_->Set(11, {.rss_kb = 2000, .minor_faults = 30});
    const auto points = [&] { return Select().at(0).points; };
    const int64_t patience_end = MonotonicNs() + 20'000'000'000;
    while (points().back().rss != 2000 * kKiB && MonotonicNs() < patience_end) {
      watch_->SetOn(true);  // asks for a round
    }
    ASSERT_EQ(points().back().rss, 2000 * kKiB);
    EXPECT_EQ(points().front().minor_faults, 10);
    EXPECT_EQ(points().back().minor_faults, rests ? std::nullopt : std::optional<int64_t>(30));
    EXPECT_EQ(points().back().major_faults, rests ? std::nullopt : std::optional<int64_t>(2));
  }
}

TEST_F(MemoryWatchTest, ReadsThoseWhoAreAskedFor) {
  proc_->Set(11, {.name = "asked"});
  proc_->Set(12, {.name = "other"});
  Read({11, 12});
  const auto points_of = [&](int32_t pid) {
    for (const ProcessHistory& history : Select()) {
      if (history.process.pid == pid) return history.points.size();
    }
    return size_t{0};
  };
  const size_t asked = points_of(11), other = points_of(12);
  // Until what was read is not fresh any more.
  for (int64_t kb = 1; points_of(11) == asked; ++kb) {
    proc_->Set(11, {.name = "asked", .rss_kb = kb});
    proc_->Set(12, {.name = "other", .rss_kb = kb});
    watch_->Refresh([](int32_t, const std::string& name) { return name == "asked"; });
  }
  EXPECT_EQ(points_of(11), asked + 1);
  EXPECT_EQ(points_of(12), other);
}

TEST_F(MemoryWatchTest, RefreshReadsAtMostOnceASecond) {
  proc_->Set(11, {});
  const int64_t begin = MonotonicNs();
  int64_t reads = 0;
  for (int64_t kb = 1; kb <= 50; ++kb) {
    proc_->Set(11, {.rss_kb = kb});
    watch_->KeepOnly({11});
    watch_->Refresh();
    reads = static_cast<int64_t>(Select()[0].points.size());
  }
  // One at once, and one more for each second that this took.
  EXPECT_LE(reads, 2 + (MonotonicNs() - begin) / 1'000'000'000);
}

}  // namespace
}  // namespace profd
