#include "daemon/source/exited_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "daemon/source/accounts.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

profd_exited_key KeyOf(int32_t pid, const char* process = "", uint32_t target = 1) {
  profd_exited_key key{};
  key.target_id = target;
  key.pid = pid;
  std::strncpy(key.process, process, sizeof(key.process) - 1);
  return key;
}

// So many threads that each ran for 1,000 ns, waited for a CPU for 100 and slept twice, for 20 in
// all.
profd_exited Sums(uint64_t threads, const char* process = "server") {
  profd_exited sums{};
  sums.threads = threads;
  std::strncpy(sums.process, process, sizeof(sums.process) - 1);
  sums.on_cpu = sums.exec_runtime = 1'000 * threads;
  sums.reasons[PROFD_REASON_RUNQUEUE].ns = sums.run_delay = 100 * threads;
  sums.reasons[PROFD_REASON_SLEEP] = {.ns = 20 * threads, .count = 2 * threads};
  sums.nvcsw = 2 * threads;
  sums.min_flt = 5 * threads;
  return sums;
}

ProfileDelta Drain(ExitedThreads& exited, const std::vector<ExitedEntry>& entries,
                   bool alive = true) {
  ProfileDelta delta;
  exited.Add(entries);
  exited.Finish(delta, [alive](int32_t) { return alive; });
  return delta;
}

int64_t Accounted(const LedgerDelta& delta) {
  return delta.on_cpu_ns + delta.unattributed_ns +
         std::accumulate(delta.off_ns.begin(), delta.off_ns.end(), int64_t{0});
}

TEST(ExitedThreadsTest, AccountClosesAsThatOfAnyThread) {
  profd_exited sums = Sums(3);
  sums.unattributed = 7;
  const LedgerDelta ledger = LedgerOf(sums, true);
  EXPECT_EQ(ledger.wall_ns, 3 * 1'120 + 7);
  EXPECT_EQ(Accounted(ledger), ledger.wall_ns);
  EXPECT_EQ(ledger.waits[PROFD_REASON_SLEEP], 6);
  EXPECT_EQ(ledger.books_on_cpu_ns, 3'000);
  EXPECT_EQ(ledger.books_runqueue_ns, 300);
  EXPECT_EQ(ledger.voluntary_switches, 6);
  EXPECT_EQ(ledger.minor_faults, 15);
  EXPECT_EQ(LedgerOf(sums, false).books_on_cpu_ns, 0) << "without the kernel's books";
}

TEST(ExitedThreadsTest, OneRowAProcessAndOneAName) {
  ExitedThreads exited(true);
  const ProfileDelta delta = Drain(exited, {{KeyOf(42), Sums(1, "server")},
                                            {KeyOf(0, "sh"), Sums(2, "sh")},
                                            {KeyOf(0, "make"), Sums(3, "make")},
                                            {KeyOf(0, "sh", 2), Sums(4, "sh")},
                                            {KeyOf(0), Sums(5, "")}});
  ASSERT_THAT(delta.threads, SizeIs(5));
  ASSERT_THAT(delta.ledgers, SizeIs(5));
  std::set<ThreadId> ids;
  for (size_t i = 0; i < delta.threads.size(); ++i) {
    const ThreadInfo& info = delta.threads[i];
    EXPECT_EQ(info.name, kExitedThreads);
    EXPECT_TRUE(info.exited);
    EXPECT_EQ(info.tid, 0);
    EXPECT_EQ(delta.ledgers[i].thread, info.id);
    ids.insert(info.id);
  }
  EXPECT_THAT(ids, SizeIs(5));
  EXPECT_EQ(delta.threads[0].pid, 42);
  EXPECT_EQ(delta.threads[0].process, "server");
  EXPECT_EQ(delta.threads[3].target, 2U);
  EXPECT_EQ(delta.threads[3].process, "sh");
  EXPECT_EQ(delta.threads[4].process, ExitedThreads::kOthers);
}

TEST(ExitedThreadsTest, RowIsTheSameFromDrainToDrain) {
  ExitedThreads exited(true);
  const ThreadId id = Drain(exited, {{KeyOf(0, "sh"), Sums(1)}}).threads.at(0).id;
  EXPECT_THAT(Drain(exited, {}).ledgers, IsEmpty());
  // In both epochs of the kernel's tables.
  const ProfileDelta delta = Drain(exited, {{KeyOf(0, "sh"), Sums(1)}, {KeyOf(0, "sh"), Sums(2)}});
  ASSERT_THAT(delta.ledgers, SizeIs(2));
  EXPECT_EQ(delta.ledgers[0].thread, id);
  EXPECT_EQ(delta.ledgers[1].thread, id);
  EXPECT_EQ(exited.rows(), 1U);
}

TEST(ExitedThreadsTest, ProcessThatIsGoneLeavesItsPidToAnother) {
  ExitedThreads exited(true);
  const ThreadId first = Drain(exited, {{KeyOf(42), Sums(1)}}, false).threads.at(0).id;
  EXPECT_EQ(exited.rows(), 0U);
  EXPECT_NE(Drain(exited, {{KeyOf(42), Sums(1)}}).threads.at(0).id, first);
}

TEST(ExitedThreadsTest, RowsThatNothingComesToAreForgotten) {
  ExitedThreads exited(true);
  Drain(exited, {{KeyOf(0, "sh"), Sums(1)}});
  for (int i = 0; i < 200; ++i) Drain(exited, {});
  EXPECT_EQ(exited.rows(), 0U);
  // And sooner where somebody makes up names.
  std::vector<ExitedEntry> entries;
  for (int i = 0; i < 5'000; ++i) {
    entries.emplace_back(KeyOf(0, std::to_string(i).c_str()), Sums(1));
  }
  Drain(exited, entries);
  EXPECT_EQ(exited.rows(), 5'000U);
  Drain(exited, {});
  EXPECT_EQ(exited.rows(), 0U);
}

profd_thread_record Live(uint64_t id, int32_t pid, const char* process) {
  profd_thread_record record{};
  record.type = PROFD_RECORD_THREAD;
  record.target_id = 1;
  record.thread_id = id;
  record.pid = pid;
  record.tid = pid;
  record.begin = record.begin_clock = 1'000;
  record.now = record.clock = 5'000;
  record.born = 1;
  record.state = 1;
  std::strncpy(record.comm, process, sizeof(record.comm) - 1);
  std::strncpy(record.process, process, sizeof(record.process) - 1);
  return record;
}

// The table has the name that the process had when its first thread ended.
TEST(ExitedThreadsTest, KnownProcessGivesItsPresentNameAndItsTargetTheSwitches) {
  Accounts accounts;
  accounts.BeginReading();
  accounts.Apply(Live(7, 42, "renamed"));
  accounts.EndReading({}, true);
  const std::vector<ExitedEntry> entries = {{KeyOf(42), Sums(10, "before")}};
  accounts.ApplyExited(entries);
  ProfileDelta delta;
  accounts.Finish(delta);
  const auto row = std::find_if(delta.threads.begin(), delta.threads.end(),
                                [](const ThreadInfo& info) { return info.name == kExitedThreads; });
  ASSERT_NE(row, delta.threads.end());
  EXPECT_EQ(row->process, "renamed");
  EXPECT_EQ(row->pid, 42);
  ASSERT_THAT(accounts.activity(), SizeIs(1));
  EXPECT_EQ(accounts.activity()[0].switches, 20);
  EXPECT_EQ(accounts.live_threads(), 1U) << "those that ended do not count";
}

}  // namespace
}  // namespace profd
