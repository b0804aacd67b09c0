// Threads and processes that come and go by the thousand: a few rows stand for them, sums stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "daemon/store/folding.h"
#include "daemon/store/memory_store.h"

namespace profd {
namespace {

constexpr int64_t kStormSecond = 1'000'000'000;
constexpr int64_t kStormTick = 10'000'000;
constexpr uint64_t kServer = 1;
constexpr int32_t kServerPid = 77;
constexpr uint64_t kFirstChild = 1000;
constexpr int64_t kStormPage = 4096;

ThreadInfo ServerInfo() {
  return {.id = ThreadId{kServer},
          .pid = kServerPid,
          .tid = kServerPid,
          .target = 1,
          .name = "server",
          .process = "server",
          .start_ns = 5,
          .process_start_ns = 5};
}

// What all of a storm did, counted beside the store.
struct StormTotals {
  int64_t processes = 0;
  LedgerDelta ledger;
  std::map<StackId, int64_t> ticks;
  std::map<std::string, int64_t> wall_of_name;
};

// Of a process: each so manieth has one, which goes so many drains after its end.
struct Pages {
  int64_t every = 1;
  int64_t late = 0;
};

// A server that runs all the time, and short processes. Each has a row in the drain in which it is
// born and in the next one, in which it ends.
class Storm {
 public:
  Storm(int64_t births, std::vector<std::string> names, Pages pages = {})
      : births_(births), names_(std::move(names)), pages_(pages) {}

  ProfileDelta Second(int64_t n) {
    ProfileDelta delta;
    delta.begin_ns = n * kStormSecond;
    delta.end_ns = (n + 1) * kStormSecond;
    delta.books_on = delta.switch_on = delta.tick_on = delta.faults_on = delta.heap_on = true;
    delta.tick_interval_ns = kStormTick;
    delta.ticks = 100;
    if (n == 0) {
      delta.threads.push_back(ServerInfo());
      for (uint64_t stack = 1; stack <= 3; stack++) {
        delta.stacks.push_back({.id = StackId{stack}, .frames = {stack, 2, 3}});
      }
    }
    LedgerDelta idle{.wall_ns = kStormSecond};
    idle.off_ns[static_cast<size_t>(Reason::kPoll)] = kStormSecond;
    Put(kServer, "server", idle, &delta);
    for (int64_t i = 0; i < births_ && n > 0; i++) Child((n - 1) * births_ + i, true, &delta);
    for (int64_t i = 0; i < births_; i++) Child(n * births_ + i, false, &delta);
    for (int64_t i = 0; i < births_; i++) {
      ChangePages(n * births_ + i, 1, &delta);
      if (n > pages_.late) ChangePages((n - 1 - pages_.late) * births_ + i, -1, &delta);
    }
    totals_.processes += births_;
    return delta;
  }

  const StormTotals& totals() const { return totals_; }
  int64_t births() const { return births_; }
  // Born in the last drain of a segment.
  int64_t WithPagesInTwoSegments() const {
    constexpr int64_t kDrainsOfASegment = 10;
    return totals_.processes / kDrainsOfASegment / pages_.every;
  }
  static int64_t NumberOf(const ThreadInfo& info) {
    return static_cast<int64_t>(static_cast<uint64_t>(info.id) - kFirstChild);
  }

 private:
  void Put(uint64_t id, const std::string& name, const LedgerDelta& ledger, ProfileDelta* delta) {
    delta->ledgers.push_back({ThreadId{id}, ledger});
    AddLedger(ledger, &totals_.ledger);
    totals_.wall_of_name[name] += ledger.wall_ns;
  }

  void Child(int64_t number, bool ends, ProfileDelta* delta) {
    const std::string& name = names_[static_cast<size_t>(number) % names_.size()];
    const auto id = kFirstChild + static_cast<uint64_t>(number);
    // PIDs are used again.
    const auto pid = static_cast<int32_t>(100 + number % 5000);
    delta->threads.push_back({.id = ThreadId{id},
                              .pid = pid,
                              .tid = pid,
                              .target = 1,
                              .name = name,
                              .process = name,
                              .exited = ends,
                              .start_ns = 1000 + number,
                              .process_start_ns = 1000 + number});
    LedgerDelta ledger;
    ledger.on_cpu_ns = ledger.books_on_cpu_ns = 100 + number % 7;
    ledger.off_ns[static_cast<size_t>(Reason::kDisk)] = 1000 + number % 11;
    ledger.off_ns[static_cast<size_t>(Reason::kRunQueue)] = number % 5;
    ledger.books_runqueue_ns = number % 5;
    ledger.wall_ns = ledger.on_cpu_ns + 1000 + number % 11 + number % 5;
    ledger.waits[static_cast<size_t>(Reason::kDisk)] = 3;
    ledger.minor_faults = number % 13;
    ledger.read_bytes = 512;
    ledger.allocated.bytes = ledger.allocated.seen_bytes = 64 + number % 3;
    ledger.allocated.events = 1;
    Put(id, name, ledger, delta);
    const StackId stack{1 + static_cast<uint64_t>(number) % 3};
    delta->samples.push_back({{ThreadId{id}, stack, 5, 0, Reason::kDisk}, kStormTick, 1});
    totals_.ticks[stack]++;
  }

  void ChangePages(int64_t number, int64_t change, ProfileDelta* delta) {
    if (number % pages_.every != 0) return;
    delta->samples.push_back(
        {.key = {.thread = ThreadId{kFirstChild + static_cast<uint64_t>(number)},
                 .stack = StackId{1 + static_cast<uint64_t>(number) % 3},
                 .kind = Kind::kResident},
         .weight = change * kStormPage,
         .ticks = change});
  }

  const int64_t births_;
  const std::vector<std::string> names_;
  const Pages pages_;
  StormTotals totals_;
};

MergedProfile MergeOf(const MemoryStore& store,
                      const std::function<bool(const ThreadInfo&)>& keep = nullptr) {
  auto merged = store.MergeLevels({0, std::numeric_limits<int64_t>::max()}, keep);
  EXPECT_TRUE(merged.ok()) << merged.status();
  return merged.ok() ? *std::move(merged) : MergedProfile{};
}

LedgerDelta SumOf(const MergedProfile& profile) {
  LedgerDelta sum;
  for (const MergedThread& thread : profile.threads) AddLedger(thread.ledger.Get(), &sum);
  return sum;
}

std::map<StackId, int64_t> TicksOf(const MergedProfile& profile) {
  std::map<StackId, int64_t> ticks;
  for (const MergedThread& thread : profile.threads) {
    for (const Sample& sample : thread.samples) {
      if (sample.key.kind != Kind::kWait) continue;
      EXPECT_EQ(sample.weight, sample.ticks * kStormTick);
      ticks[sample.key.stack] += sample.ticks;
    }
  }
  return ticks;
}

void ExpectNothingLost(const MergedProfile& profile, const StormTotals& totals) {
  const LedgerDelta sum = SumOf(profile);
  EXPECT_EQ(sum.wall_ns, totals.ledger.wall_ns);
  EXPECT_EQ(sum.on_cpu_ns, totals.ledger.on_cpu_ns);
  EXPECT_EQ(sum.books_on_cpu_ns, totals.ledger.books_on_cpu_ns);
  EXPECT_EQ(sum.books_runqueue_ns, totals.ledger.books_runqueue_ns);
  EXPECT_EQ(sum.off_ns, totals.ledger.off_ns);
  EXPECT_EQ(sum.waits, totals.ledger.waits);
  EXPECT_EQ(sum.minor_faults, totals.ledger.minor_faults);
  EXPECT_EQ(sum.read_bytes, totals.ledger.read_bytes);
  EXPECT_EQ(sum.allocated.bytes, totals.ledger.allocated.bytes);
  EXPECT_EQ(sum.allocated.events, totals.ledger.allocated.events);
  EXPECT_EQ(TicksOf(profile), totals.ticks);
  EXPECT_EQ(profile.losses, LossCounts{});
}

// Each process is a row, or counted in one, or still runs; one with pages that ended in another
// segment than it began in may be both, or counted twice. None has a row of its own only because
// its pages are its own in the store.
void ExpectEachProcess(const MergedProfile& profile, const Storm& storm) {
  int64_t ended = 0, empty = 0;
  for (const MergedThread& thread : profile.threads) {
    const bool itself = thread.info->exited && thread.info->tid != 0;
    empty += itself && thread.ledger.Get().wall_ns == 0 ? 1 : 0;
    ended += itself ? 1 : thread.ledger.folded_processes();
  }
  const int64_t all = storm.totals().processes - storm.births();
  EXPECT_GE(ended, all);
  EXPECT_EQ(empty, 0);
  EXPECT_LE(ended, all + storm.WithPagesInTwoSegments());
}

// Pages of those that still run are theirs; what the others had is gone.
int64_t ResidentBytes(const MergedProfile& profile) {
  int64_t bytes = 0;
  for (const MergedThread& thread : profile.threads) {
    for (const Sample& sample : thread.samples) {
      if (sample.key.kind == Kind::kResident) bytes += sample.weight;
    }
  }
  return bytes;
}

void FeedStorm(Storm* storm, int64_t seconds, MemoryStore* store) {
  for (int64_t n = 0; n < seconds; n++) ASSERT_TRUE(store->Append(storm->Second(n)).ok());
}

TEST(StoreFoldingTest, ProcessesAreFoldedByNameAndNothingIsLost) {
  MemoryStore store;
  Storm storm(90, {"sh", "cc1"});
  // Not a whole number of segments: the last to end are not folded yet.
  FeedStorm(&storm, 339, &store);
  const MergedProfile all = MergeOf(store);
  ExpectNothingLost(all, storm.totals());
  ExpectEachProcess(all, storm);
  EXPECT_EQ(ResidentBytes(all), storm.births() * kStormPage);
  EXPECT_LE(all.threads.size(), kMaxExitedRows + 2 * static_cast<size_t>(storm.births()));
  std::map<std::string, int64_t> folded;
  for (const MergedThread& thread : all.threads) {
    if (thread.info->name != "[exited processes]") continue;
    EXPECT_TRUE(folded.try_emplace(thread.info->process, thread.ledger.folded_processes()).second);
    EXPECT_TRUE(thread.info->exited);
    EXPECT_EQ(thread.info->pid, 0);
    EXPECT_EQ(thread.info->tid, 0);
    EXPECT_EQ(thread.info->start_ns, 0);
    EXPECT_EQ(thread.info->process_start_ns, 0);
    EXPECT_EQ(thread.info->target, 1U);
  }
  ASSERT_EQ(folded.size(), 2U);
  EXPECT_GT(folded["sh"], 11'000);
  EXPECT_GT(folded["cc1"], 11'000);
  // By name.
  const MergedProfile shells =
      MergeOf(store, [](const ThreadInfo& info) { return info.process == "sh"; });
  EXPECT_EQ(SumOf(shells).wall_ns, storm.totals().wall_of_name.at("sh"));
}

// Segments that are not folded themselves are as many as the window is long.
TEST(StoreFoldingTest, AnswersAreBoundedWhateverTheWindow) {
  MemoryStore store;
  Storm storm(40, {"sh"});
  FeedStorm(&storm, 295, &store);
  const MergedProfile all = MergeOf(store);
  ExpectNothingLost(all, storm.totals());
  ExpectEachProcess(all, storm);
  EXPECT_EQ(ResidentBytes(all), storm.births() * kStormPage);
  // The last ones are still themselves.
  int64_t oldest = std::numeric_limits<int64_t>::max();
  size_t themselves = 0;
  for (const MergedThread& thread : all.threads) {
    if (!thread.info->exited || thread.info->tid == 0) continue;
    themselves++;
    oldest = std::min(oldest, Storm::NumberOf(*thread.info));
  }
  EXPECT_EQ(themselves, kMaxExitedRows);
  EXPECT_GE(oldest, 295 * 40 - 2 * 10 * 40 - 2 * static_cast<int64_t>(kMaxExitedRows));
  EXPECT_EQ(all.threads.size(), 1 + 40 + kMaxExitedRows + 1);
}

TEST(StoreFoldingTest, NamesAreBoundedToo) {
  std::vector<std::string> names;
  for (int i = 0; i < 9000; i++) names.push_back("n" + std::to_string(i));
  MemoryStore store;
  Storm storm(300, names);
  // Not a whole number of segments: the last to end are not folded yet.
  FeedStorm(&storm, 69, &store);
  const MergedProfile all = MergeOf(store);
  ExpectNothingLost(all, storm.totals());
  ExpectEachProcess(all, storm);
  EXPECT_LE(all.threads.size(), 2 * 300 + kMaxExitedRows + kMaxExitedNames + 2);
  EXPECT_EQ(std::count_if(all.threads.begin(), all.threads.end(),
                          [](const auto& t) { return t.info->process == "[other processes]"; }),
            1);
}

// A segment in which a process has nothing but the end of its pages neither makes it a row of its
// own nor takes it out of the row for several.
TEST(StoreFoldingTest, PagesThatGoLaterCountNobodyTwice) {
  MemoryStore store;
  Storm storm(100, {"sh"}, {.every = 20, .late = 2});
  FeedStorm(&storm, 405, &store);
  const MergedProfile all = MergeOf(store);
  ExpectNothingLost(all, storm.totals());
  ExpectEachProcess(all, storm);
  EXPECT_EQ(ResidentBytes(all), 3 * 100 / 20 * kStormPage);
  auto times = store.Merge({0, std::numeric_limits<int64_t>::max()}, nullptr);
  ASSERT_TRUE(times.ok());
  ExpectNothingLost(*times, storm.totals());
  ExpectEachProcess(*times, storm);
}

// Nor in a window that begins between the end of a process and that of its pages.
TEST(StoreFoldingTest, PagesThatGoLaterMakeNoRowsWithoutTime) {
  MemoryStore store;
  Storm storm(40, {"sh"}, {.every = 2, .late = 2});
  FeedStorm(&storm, 45, &store);
  for (int64_t begin = 20; begin < 30; begin++) {
    SCOPED_TRACE(begin);
    const auto later = store.Merge({begin * kStormSecond, 45 * kStormSecond}, nullptr);
    ASSERT_TRUE(later.ok());
    EXPECT_GT(later->threads.size(), 500U);
    for (const MergedThread& thread : later->threads) {
      EXPECT_GT(thread.ledger.Get().wall_ns, 0) << thread.info->tid;
    }
  }
}

// Nor does it count a process that ended before the window. Segments of so few processes are not
// folded, so the count is exact.
TEST(StoreFoldingTest, PagesThatGoLaterCountNobodyWhoWasGone) {
  constexpr int64_t kBegin = 25, kEnd = 200, kBirths = 40;
  MemoryStore store;
  Storm storm(kBirths, {"sh"}, {.every = 2, .late = 2});
  FeedStorm(&storm, kEnd, &store);
  const auto merged = store.MergeLevels({kBegin * kStormSecond, kEnd * kStormSecond}, nullptr);
  ASSERT_TRUE(merged.ok());
  int64_t ended = 0;
  for (const MergedThread& thread : merged->threads) {
    const bool itself = thread.info->exited && thread.info->tid != 0;
    ended += itself ? 1 : thread.ledger.folded_processes();
  }
  EXPECT_EQ(ended, (kEnd - kBegin) * kBirths);
}

// Nor does it take a thread's times away from it.
TEST(StoreFoldingTest, ThreadsWhosePagesGoLaterKeepTheirRows) {
  constexpr uint64_t kThreads = 600;
  constexpr int64_t kSeconds = 60;
  MemoryStore store;
  for (int64_t n = 0; n < kSeconds + 20; n++) {
    ProfileDelta delta;
    delta.begin_ns = n * kStormSecond;
    delta.end_ns = (n + 1) * kStormSecond;
    delta.books_on = true;
    delta.faults_on = true;
    for (uint64_t id = 1; id <= kThreads; id++) {
      ThreadInfo info = ServerInfo();
      info.id = ThreadId{id};
      info.name = "worker-" + std::to_string(id);
      info.exited = n >= kSeconds - 1;
      if (n == 0 || n == kSeconds - 1) delta.threads.push_back(info);
      if (n < kSeconds) delta.ledgers.push_back({info.id, {.wall_ns = 7, .on_cpu_ns = 7}});
      if (n != 0 && n != kSeconds + 2) continue;
      const int64_t change = n == 0 ? 1 : -1;
      delta.samples.push_back({.key = {.thread = info.id, .kind = Kind::kResident},
                               .weight = change * kStormPage,
                               .ticks = change});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const Window always{0, std::numeric_limits<int64_t>::max()};
  const auto is_worker = [](const ThreadInfo& info) { return info.name.starts_with("worker"); };
  for (const bool levels : {false, true}) {
    SCOPED_TRACE(levels);
    const auto merged =
        levels ? store.MergeLevels(always, is_worker) : store.Merge(always, is_worker);
    ASSERT_TRUE(merged.ok());
    EXPECT_EQ(merged->threads.size(), kThreads);
    int64_t wall = 0;
    for (const MergedThread& thread : merged->threads) {
      EXPECT_TRUE(is_worker(*thread.info)) << thread.info->name;
      wall += thread.ledger.Get().wall_ns;
    }
    // But for those of the segment in which they ended.
    EXPECT_GE(wall, 7 * (kSeconds - 10) * static_cast<int64_t>(kThreads));
  }
}

// Threads that exited belong to their process for as long as it runs.
TEST(StoreFoldingTest, ThreadsOfAProcessThatRunsStayWithIt) {
  MemoryStore store;
  Storm storm(40, {"sh"});
  uint64_t id = 1'000'000;
  for (int64_t n = 0; n < 400; n++) {
    ProfileDelta delta = storm.Second(n);
    for (int i = 0; i < 10; i++, id++) {
      ThreadInfo info = ServerInfo();
      info.id = ThreadId{id};
      info.tid = static_cast<int32_t>(id);
      info.exited = true;
      delta.threads.push_back(info);
      delta.ledgers.push_back({info.id, {.wall_ns = 7, .on_cpu_ns = 7}});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  int64_t wall = 0, rows = 0;
  for (const MergedThread& thread : MergeOf(store).threads) {
    if (thread.info->pid != kServerPid || thread.info->id == ThreadId{kServer}) continue;
    EXPECT_EQ(thread.info->process_start_ns, 5);
    EXPECT_EQ(thread.ledger.folded_processes(), 0);
    wall += thread.ledger.Get().wall_ns;
    rows += thread.info->name == "[exited threads]" ? 1 : 0;
  }
  EXPECT_EQ(wall, 400 * 10 * 7);
  EXPECT_EQ(rows, 1);
}

// Where only samples tell of threads, one without a sample may well run.
TEST(StoreFoldingTest, WithoutLedgersNobodyIsTakenForGone) {
  constexpr uint64_t kThreads = 2000;
  MemoryStore store;
  for (int64_t n = 0; n < 60; n++) {
    ProfileDelta delta;
    delta.begin_ns = n * kStormSecond;
    delta.end_ns = (n + 1) * kStormSecond;
    delta.tick_on = true;
    for (uint64_t id = 1; id <= kThreads; id++) {
      const auto pid = static_cast<int32_t>(id);
      if (n == 0) {
        delta.threads.push_back(
            {.id = ThreadId{id}, .pid = pid, .tid = pid, .name = "t", .process = "p"});
      }
      if (n != static_cast<int64_t>(id % 60)) continue;
      delta.samples.push_back({{ThreadId{id}, StackId{}, 5, 0, Reason::kDisk}, kStormTick, 1});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  EXPECT_EQ(MergeOf(store).threads.size(), kThreads);
}

// A storm does not push out the stacks that are in use.
TEST(StoreFoldingTest, StacksInUseStayKnownInAStorm) {
  MemoryStore store({.max_bytes = 1 << 20});
  Storm storm(200, {"sh"});
  FeedStorm(&storm, 120, &store);
  EXPECT_EQ(store.Losses()[static_cast<size_t>(Loss::kStackUnknown)], 0U);
  EXPECT_LE(store.Bytes(), 1U << 20);
  ExpectNothingLost(MergeOf(store), storm.totals());
}

// A row has one id in every segment, in every run.
TEST(StoreFoldingTest, IdsOfRowsAreStable) {
  ThreadInfo sh = ServerInfo();
  sh.process = "sh";
  ThreadInfo other = sh;
  other.pid++;
  EXPECT_EQ(ExitedProcessesOf(sh)->id, ExitedProcessesOf(other)->id);
  EXPECT_NE(ExitedThreadsOf(sh)->id, ExitedThreadsOf(other)->id);
  EXPECT_NE(ExitedProcessesOf(sh)->id, ExitedProcessesOf(ServerInfo())->id);
  other.target++;
  EXPECT_NE(ExitedProcessesOf(sh)->id, ExitedProcessesOf(other)->id);
  EXPECT_EQ(ExitedThreadsOf(sh)->id, ThreadId{0xd7a15666543db88d});
}

}  // namespace
}  // namespace profd
