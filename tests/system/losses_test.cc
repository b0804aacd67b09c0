// Every loss of docs/losses.md and every ending of a stack, provoked: the counter moves, the answer
// says so, nothing else is lost, the accounts of time still add up, and profd goes on. What the
// kernel comes to only by a race is brought about by the state that the race would leave there. Not
// scenarios: most losses need a kernel map, a limit or a process in a state that no target can
// reach. `recursion_misses` is in tests/unit/service_test.cc, which says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/losses_table.h"
#include "tests/observe.h"
#include "tests/support/machine.h"
#include "tests/support/places.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/heap.h"
#include "tests/system/harness/kernel_state.h"

namespace profd::e2e {
namespace {

struct Lost {
  uint64_t count = 0;
  int64_t weight_ns = 0, weight_bytes = 0;
};
using Losses = std::map<std::string, Lost>;

// A number, or a string of one: integers of 64 bits in the JSON of a profile.
int64_t Number(const nlohmann::json& value) {
  return value.is_string() ? std::stoll(value.get<std::string>()) : value.get<int64_t>();
}

Losses Parse(const nlohmann::json& list) {
  Losses losses;
  for (const nlohmann::json& loss : list) {
    losses[loss.at("cause")] = {static_cast<uint64_t>(Number(loss.at("count"))),
                                Number(loss.at("weight_ns")), Number(loss.at("weight_bytes"))};
  }
  return losses;
}

std::string Names(const Losses& losses) {
  std::string names;
  for (const auto& [name, lost] : losses) absl::StrAppend(&names, name, " ", lost.count, ", ");
  return names;
}

// What a test of one loss sets up. The first of the `expected` is the one that is waited for.
struct Way {
  std::string name;
  std::vector<std::string> target;   // arguments of `strain`, or a program and its arguments
  std::vector<std::string> options;  // of profd
  std::vector<std::string> expected;
  std::vector<std::string> allowed{};  // may come with it
  std::vector<std::string> lines{};    // to the program, over and over while it is waited for
};

class LossesTest : public testing::Test {
 protected:
  void SetUp() override { REQUIRE_FACT("capabilities"); }

  void StartTarget(std::vector<std::string> argv,
                   std::vector<std::pair<std::string, std::string>> environment = {}) {
    argv[0] = test::InBuild(argv[0]);
    auto process = Subprocess::Start({.argv = std::move(argv), .environment = environment});
    ASSERT_TRUE(process.ok()) << process.status();
    target_ = *std::move(process);
    ASSERT_TRUE(target_->LineWith(Stream::kStdout, "ready", kPatience).has_value())
        << target_->Output(Stream::kStderr);
  }

  // The layers whose programs run in the scheduler lose one now and then, whatever else a test is
  // about: when the kernel has no memory at hand for a new counter.
  void StartDaemon(std::vector<std::string> options, bool wakers = false, bool switches = false) {
    if (!wakers) options.insert(options.end(), {"--disable", "wakers"});
    if (!switches) options.insert(options.end(), {"--disable", "switch-stacks"});
    auto daemon =
        Daemon::Start({.targets = {std::to_string(target_->pid())}, .arguments = options});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }

  // With all layers; until the allocator of that process is watched.
  void WatchHeap(int pid, std::vector<std::string> options) {
    auto daemon =
        Daemon::Start({.targets = {std::to_string(pid)}, .arguments = std::move(options)});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    ASSERT_TRUE(Eventually(kPatience, [&] {
      const auto status = daemon_->Status();
      return status.ok() && std::any_of(status->allocators().begin(), status->allocators().end(),
                                        [](const v1::AllocatorStatus& a) { return a.watched(); });
    }));
  }

  // Lets `strain` begin.
  void Begin() {
    ASSERT_TRUE(target_->Write("go\n"));
    ASSERT_TRUE(target_->LineWith(Stream::kStdout, "begun", kPatience).has_value())
        << target_->Output(Stream::kStderr);
  }

  nlohmann::json Ask(const std::vector<std::string>& arguments) {
    const auto finished = Profctl(*daemon_, arguments);
    EXPECT_TRUE(finished.ok()) << finished.status();
    if (!finished.ok()) return nullptr;
    EXPECT_EQ(finished->code, 0) << finished->err;
    const nlohmann::json answer = nlohmann::json::parse(finished->out, nullptr, false);
    EXPECT_FALSE(answer.is_discarded()) << finished->out;
    return answer;
  }
  Losses InStatus() { return Parse(Ask({"status", "--format", "json"}).at("losses")); }
  Losses InAnswer() {
    const nlohmann::json answer =
        Ask({"fetch", "--since", "1h", "--idle", "--format", "json", "-o", "-"});
    return Parse(answer.at("losses"));
  }

  // Does `meanwhile` until profd has counted all of `expected`.
  void AwaitLosses(const std::vector<std::string>& expected,
                   const std::function<void()>& meanwhile = {}) {
    Losses losses;
    EXPECT_TRUE(Eventually(kPatience,
                           [&] {
                             if (meanwhile) meanwhile();
                             // An answer drains.
                             const auto answer = daemon_->FetchProcess(target_->pid());
                             losses = InStatus();
                             return std::all_of(
                                 expected.begin(), expected.end(),
                                 [&](const std::string& name) { return losses.contains(name); });
                           }))
        << "lost only: " << Names(losses);
  }

  // The answer says what the status says, nothing else was lost, the accounts add up, and profd
  // ends as it should.
  void ExpectNothingElse(const std::vector<std::string>& expected,
                         const std::vector<std::string>& allowed = {}) {
    const Losses before = InStatus();
    const Losses answer = InAnswer();
    const Losses after = InStatus();
    std::set<std::string> known(expected.begin(), expected.end());
    for (const std::string& name : expected) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(answer.contains(name)) << Names(answer);
      EXPECT_GT(answer.at(name).count, 0U);
      // The store counts its own anew for each answer.
      if (name == "stack_unknown" || name == "store_dropped") continue;
      // Those of the kernel and of the collector; the window reaches back to the start.
      EXPECT_GE(answer.at(name).count, before.at(name).count);
      EXPECT_LE(answer.at(name).count, after.at(name).count);
    }
    known.insert(allowed.begin(), allowed.end());
    // Objects are sent as stacks are.
    if (known.contains("stack_ring_full")) known.insert("object_lost");
    for (const Losses& losses : {answer, after}) {
      for (const auto& [name, lost] : losses) {
        EXPECT_TRUE(known.contains(name) || IsUsualLoss(name)) << Names(losses);
      }
    }
    ExpectAccounts();
    ExpectEnds();
    for (const std::string& name : expected) Observe("loss", name, answer.at(name).count);
  }

  void ExpectAccounts() {
    const auto answer = daemon_->FetchProcess(target_->pid());
    ASSERT_TRUE(answer.ok()) << answer.status();
    const Thread* leader = answer->FindThread(target_->pid());
    ASSERT_NE(leader, nullptr);
    EXPECT_GT(leader->ledger.wall_ns(), 0);
    for (const Thread& thread : answer->threads) EXPECT_TRUE(AddsUp(thread));
  }

  void ExpectEnds() { EXPECT_EQ(daemon_->Stop(), 0) << daemon_->process().Output(Stream::kStderr); }

  TemporaryDirectory directory_;
  std::unique_ptr<Subprocess> target_;
  std::unique_ptr<Daemon> daemon_;
};

class Ways : public LossesTest, public testing::WithParamInterface<Way> {};

TEST_P(Ways, IsCountedAndSaid) {
  const Way& way = GetParam();
  std::vector<std::string> argv = way.target;
  const bool strains = argv[0] == "strain";
  ASSERT_NO_FATAL_FAILURE(StartTarget(argv));
  const bool wakers = std::ranges::count(way.expected, "waker_lost") > 0 ||
                      std::ranges::count(way.expected, "lock_wait_lost") > 0;
  const bool switches = std::ranges::count(way.expected, "switch_stack_lost") > 0;
  ASSERT_NO_FATAL_FAILURE(StartDaemon(way.options, wakers, switches));
  if (strains) {
    ASSERT_NO_FATAL_FAILURE(Begin());
  }
  AwaitLosses(way.expected, [&] {
    for (const std::string& line : way.lines) {
      target_->Write(line + "\n");
      target_->NextLine(Stream::kStdout, seconds(60));
    }
  });
  ExpectNothingElse(way.expected, way.allowed);
}

INSTANTIATE_TEST_SUITE_P(
    All, Ways,
    testing::Values(
        Way{"Counters",
            {"strain", "sleepers", "64"},
            {"--limit", "counters=8", "--disable", "cpu"},
            {"counters_full"}},
        Way{"StackRing",
            {"strain", "sleepers", "64"},
            {"--limit", "ring=4K"},
            {"stack_ring_full", "stack_unknown"},
            {"event_ring_full"}},
        Way{"KnownStacks",
            {"strain", "sleepers", "64"},
            {"--limit", "known-stacks=8"},
            {"known_stacks_full"},
            {"object_lost"}},
        // Only threads that profd knew can be lost, so the storm lasts until many were read.
        Way{"Exits",
            {"strain", "births", "100", "50"},
            {"--limit", "ring=4K", "--limit", "exits=1"},
            {"exit_ring_full", "thread_vanished"},
            {"stack_ring_full", "stack_unknown", "event_ring_full", "store_dropped",
             "thread_storage"}},
        Way{"Pages",
            {"waiter", "touch", "512", "512"},
            {"--limit", "ring=4K"},
            {"event_ring_full"},
            {"stack_ring_full", "stack_unknown"},
            {"go"}},
        Way{"Store",
            {"strain", "sleepers", "64"},
            {"--limit", "store=128K"},
            {"store_dropped"},
            {"stack_unknown"}},
        Way{"Walks", {"strain", "switches"}, {}, {"torn_walk"}},
        Way{"Modules", {"strain", "sleepers", "1"}, {"--limit", "modules=2"}, {"modules_full"}},
        Way{"Rules", {"strain", "sleepers", "1"}, {"--limit", "rules=64K"}, {"rules_full"}},
        Way{"MappingCalls", {"strain", "maps"}, {"--limit", "heap-counters=1"}, {"mapping_lost"}},
        Way{"MappingsBusy", {"strain", "maps"}, {}, {"mapping_busy"}},
        Way{"MallocStacks",
            {"churn"},
            {"--malloc-burst", "20ms/200ms", "--limit", "malloc-stacks=1"},
            {"malloc_counters_full"},
            {"heap_walk_busy"}},
        Way{"MallocThreads",
            {"churn"},
            {"--malloc-burst", "20ms/200ms", "--limit", "malloc-threads=1"},
            {"malloc_counters_full"},
            {"heap_walk_busy"}},
        Way{"RunningCode",
            {"strain", "touch"},
            {"--limit", "counters=1", "--cpu-rate", "1000", "--disable", "tick"},
            {"cpu_sample_lost"}},
        Way{"Wakers",
            {"strain", "sleepers", "64"},
            {"--limit", "counters=1"},
            {"waker_lost"},
            {"counters_full", "cpu_sample_lost"}},
        // The waits of a lock differ in their lengths, and their wakers do not.
        Way{"LockWaits",
            {"strain", "herd", "32", "100"},
            {"--limit", "counters=1"},
            {"lock_wait_lost"},
            {"waker_lost", "counters_full", "cpu_sample_lost"}},
        Way{"SwitchStacks",
            {"strain", "sleepers", "64"},
            {"--limit", "counters=1"},
            {"switch_stack_lost"},
            {"counters_full", "cpu_sample_lost"}},
        // More waits than may be told at once.
        Way{"LongWaits", {"strain", "herd", "1500", "200"}, {}, {"long_wait_lost"}},
        Way{"SampledObjects",
            {"told_always", "20000", "100", "1"},
            {"--limit", "ring=4K"},
            {"live_born", "live_gone"},
            {"event_ring_full", "exit_ring_full", "stack_ring_full", "stack_unknown",
             "thread_vanished"},
            {"a", "f"}}),
    [](const auto& way) { return way.param.name; });

// The weights of what found the counters full are said with them.
TEST_F(LossesTest, WeightsOfWhatFoundTheCountersFull) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "sleepers", "64"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--limit", "counters=8"}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitLosses({"counters_full"});
  const Lost lost = InAnswer()["counters_full"];
  // Each sample weighs its thread's interval, of 10 ms on the average.
  EXPECT_GT(lost.weight_ns, 0);
  ExpectEnds();
  Observe("loss", "counters_full_ns", static_cast<uint64_t>(lost.weight_ns));
}

TEST_F(LossesTest, WeightsOfLostSamplesOfRunningCode) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "touch"}));
  ASSERT_NO_FATAL_FAILURE(
      StartDaemon({"--limit", "counters=1", "--cpu-rate", "1000", "--disable", "tick"}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitLosses({"cpu_sample_lost"});
  const Lost lost = InAnswer()["cpu_sample_lost"];
  EXPECT_GT(lost.weight_ns, 0);
  ExpectEnds();
  Observe("loss", "cpu_sample_lost_ns", static_cast<uint64_t>(lost.weight_ns));
}

TEST_F(LossesTest, DiskRequests) {
  REQUIRE_FACT("disk_requests");
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "disk"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--limit", "counters=1", "--disable", "tick,cpu"}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitLosses({"disk_request_lost"});
  ExpectNothingElse({"disk_request_lost"});
}

TEST_F(LossesTest, WeightsOfLostWakers) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "sleepers", "64"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--limit", "counters=1"}, /*wakers=*/true));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitLosses({"waker_lost"});
  const Lost lost = InAnswer()["waker_lost"];
  EXPECT_GT(lost.weight_ns, 0);
  ExpectEnds();
  Observe("loss", "waker_lost_ns", static_cast<uint64_t>(lost.weight_ns));
}

TEST_F(LossesTest, HeapCounters) {
  auto target = Allocating::Start(AllocBinary("alloc_jemalloc"),
                                  {"n=200000", "size=2000", "threads=4", "sites=3"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(WatchHeap(target->pid(), {"--limit", "heap-counters=1"}));
  target->Run();
  const nlohmann::json answer =
      Ask({"fetch", "--kind", "alloc", "--since", "1h", "--format", "json", "-o", "-"});
  Losses losses = Parse(answer.at("losses"));
  ASSERT_TRUE(losses.contains("heap_counters_full")) << Names(losses);
  const Lost lost = losses["heap_counters_full"];
  EXPECT_EQ(InStatus()["heap_counters_full"].count, lost.count);
  // Each event stands for 64 KiB at most, and what passed the mark.
  EXPECT_GT(lost.weight_bytes, 0);
  EXPECT_LE(lost.weight_bytes, static_cast<int64_t>(lost.count) * kInterval);
  // Totals are the allocator's own, so bytes by stack still sum to them.
  const int64_t total = Number(answer.at("sample_types").at(0).at("total").at("bytes"));
  EXPECT_GE(static_cast<double>(total), 4 * 200'000 * 2000.0);
  int64_t bytes = 0;
  for (const nlohmann::json& sample : answer.at("samples"))
    bytes += Number(sample.at("values").at(0));
  EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(total), 1000);
  losses.erase("heap_counters_full");
  losses.erase("mapping_lost");  // the same table
  for (const auto& [name, other] : losses) EXPECT_TRUE(IsUsualLoss(name)) << Names(losses);
  ExpectEnds();
  Observe("loss", "heap_counters_full", lost.count);
  Observe("loss", "heap_counters_full_bytes", static_cast<uint64_t>(lost.weight_bytes));
}

// Its memory map is locked nearly all the time.
TEST_F(LossesTest, HeapTotals) {
  auto target = Allocating::Start(AllocBinary("alloc_jemalloc"), {"n=1000", "protect=256"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(WatchHeap(target->pid(), {}));
  target->Run();
  Losses losses;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    losses = Parse(Ask({"fetch", "--kind", "alloc", "--since", "1h", "--format", "json", "-o", "-"})
                       .at("losses"));
    return losses.contains("heap_total_late");
  })) << Names(losses);
  const uint64_t late = losses["heap_total_late"].count;
  EXPECT_GT(late, 0U);
  for (const auto& [name, other] : losses) EXPECT_TRUE(IsUsualLoss(name)) << Names(losses);
  ExpectEnds();
  Observe("loss", "heap_total_late", late);
}

// Threads that were interrupted in their walks keep the memory of these until they run again: they
// hold all of it now.
class WalksHeld {
 public:
  explicit WalksHeld(int daemon) {
    auto words = KernelWords::Open(daemon, "own_walking");
    EXPECT_TRUE(words.ok()) << words.status();
    if (!words.ok()) return;
    words_ = *std::move(words);
    for (uint32_t& word : words_->words()) {
      // One that is in use will be given back.
      EXPECT_TRUE(Eventually(kPatience, [&] {
        uint32_t free = 0;
        return std::atomic_ref(word).compare_exchange_strong(free, 1);
      }));
    }
  }
  ~WalksHeld() {
    if (!words_) return;
    for (uint32_t& word : words_->words()) std::atomic_ref(word).store(0);
  }

 private:
  std::unique_ptr<KernelWords> words_;
};

TEST_F(LossesTest, FaultsWhileWalksAreInterrupted) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "touch"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--disable", "mappings"}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  {
    const WalksHeld held(daemon_->process().pid());
    AwaitLosses({"fault_walk_busy"});
  }
  ExpectNothingElse({"fault_walk_busy"});
}

TEST_F(LossesTest, MappingCallsWhileWalksAreInterrupted) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "maps"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--disable", "faults"}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  {
    const WalksHeld held(daemon_->process().pid());
    AwaitLosses({"mapping_lost"});
  }
  ExpectNothingElse({"mapping_lost"});
}

TEST_F(LossesTest, AllocationsWhileWalksAreInterrupted) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"churn"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon(
      {"--malloc-burst", "20ms/200ms", "--disable", "faults", "--disable", "mappings"}));
  {
    const WalksHeld held(daemon_->process().pid());
    AwaitLosses({"heap_walk_busy"});
  }
  ExpectNothingElse({"heap_walk_busy"});
}

// A thread has place for the totals of two allocators.
TEST_F(LossesTest, ThirdAllocatorOfAThread) {
  std::vector<std::string> argv = {"strain", "jemallocs"};
  for (const char* name : {"first.so", "second.so", "third.so"}) {
    // Copies: one file would be opened once.
    const std::string copy = absl::StrCat(directory_.path(), "/", name);
    std::error_code error;
    ASSERT_TRUE(std::filesystem::copy_file(JEMALLOC_LIBRARY, copy, error)) << error.message();
    argv.push_back(copy);
  }
  // Each wants its thread's data in the little room that is kept for libraries opened late.
  ASSERT_NO_FATAL_FAILURE(
      StartTarget(argv, {{"GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536"}}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitLosses({"heap_storage"});
  ExpectNothingElse({"heap_storage"});
}

TEST_F(LossesTest, CodeInAFileThatIsNoElf) {
  ASSERT_NO_FATAL_FAILURE(
      StartTarget({"strain", "foreign", absl::StrCat(directory_.path(), "/code.bin")}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitLosses({"module_unreadable"});
  ExpectNothingElse({"module_unreadable"});
}

// The kernel lets nobody start the iterator of a drain who has no file descriptor left.
TEST_F(LossesTest, DrainsThatFail) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "sleepers", "4"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  const auto first = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(first.ok()) << first.status();
  rlimit before = {};
  ASSERT_EQ(prlimit(daemon_->process().pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit low = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(prlimit(daemon_->process().pid(), RLIMIT_NOFILE, &low, nullptr), 0);
  EXPECT_TRUE(
      daemon_->process().LineWith(Stream::kStderr, "start iterator drain", kPatience).has_value());
  ASSERT_EQ(prlimit(daemon_->process().pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  AwaitLosses({"drain_failed"});
  ExpectNothingElse({"drain_failed"});
}

TEST_F(LossesTest, TimelineOfManyProcesses) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "children", "60"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--limit", "timeline=4K"}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitLosses({"memory_dropped"});
  // It is a loss of the timeline's answers, not of those of the profile.
  const Losses losses = Parse(Ask({"memory", "--format", "json"}).at("losses"));
  ASSERT_TRUE(losses.contains("memory_dropped")) << Names(losses);
  ExpectNothingElse({}, {"memory_dropped"});
  Observe("loss", "memory_dropped", losses.at("memory_dropped").count);
}

// An account that is being written to stays so while the hypervisor has the CPU.
TEST_F(LossesTest, AccountReadInTheMiddleOfASwitch) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "sleepers", "4"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  const auto threads = OpenMapOf(daemon_->process().pid(), "threads");
  ASSERT_TRUE(threads.ok()) << threads.status();
  // At rest it would not be read.
  ASSERT_TRUE(ChangeAccount(*threads, target_->pid(), [](profd_thread& account) {
                ++account.seq;
                account.rest.known = 0;
              }).ok());
  AwaitLosses({"torn_ledger"});
  ASSERT_TRUE(ChangeAccount(*threads, target_->pid(), [](profd_thread& account) {
                ++account.seq;
                account.rest.known = 0;
              }).ok());
  ExpectNothingElse({"torn_ledger"});
}

// One switch less than the kernel counted, as where the kernel did not run the program.
TEST_F(LossesTest, SwitchThatNobodySaw) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "sleepers", "4"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  const auto first = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(first.ok()) << first.status();
  const uint64_t before = InStatus()["switch_unseen"].count;
  const auto threads = OpenMapOf(daemon_->process().pid(), "threads");
  ASSERT_TRUE(threads.ok()) << threads.status();
  ASSERT_TRUE(ChangeAccount(*threads, target_->pid(), [](profd_thread& account) {
                --account.ledger.reasons[account.ledger.reason].count;
                account.rest.known = 0;
              }).ok());
  uint64_t after = before;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    // It runs, and is read again: a switch that is under way is missing for a moment, too.
    target_->Write("x\n");
    (void)daemon_->FetchProcess(target_->pid());
    after = InStatus()["switch_unseen"].count;
    return after > before;
  }));
  ExpectNothingElse({"switch_unseen"});
}

// The kernel charges a thread's account to the memory cgroup in which profd made the map. profd
// moves out, so that what the cgroup lacks is missing for accounts only.
TEST_F(LossesTest, NoMemoryForAccounts) {
  const std::string mount = "/sys/fs/cgroup/memory";
  REQUIRE_FACT("kernel.cgroup_v1_memory");
  std::string root;  // where we are
  std::ifstream places("/proc/self/cgroup");
  for (std::string line; std::getline(places, line);) {
    const size_t at = line.find(":memory:");
    if (at != std::string::npos) root = mount + line.substr(at + 8);
  }
  ASSERT_TRUE(std::filesystem::exists(root + "/cgroup.procs")) << root;
  const std::string group = absl::StrCat(root, "/profd-test-", getpid());
  std::error_code error;
  ASSERT_TRUE(std::filesystem::create_directory(group, error)) << error.message();
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  };
  const std::string own = std::to_string(getpid());
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "births", "1500", "500"}));
  // What we start is born where we are.
  ASSERT_TRUE(write(group + "/cgroup.procs", own));
  StartDaemon({});
  EXPECT_TRUE(write(root + "/cgroup.procs", own));
  if (daemon_) {
    EXPECT_TRUE(write(root + "/cgroup.procs", std::to_string(daemon_->process().pid())));
    // Down to what is in use and cannot be reclaimed: there the kernel refuses.
    constexpr uint64_t kStep = 64 << 10, kMiB = 1 << 20;
    uint64_t limit = 0;
    std::ifstream(group + "/memory.usage_in_bytes") >> limit;
    ASSERT_GT(limit, kMiB);
    for (limit = (limit + kMiB) / kStep * kStep; limit > kStep; limit -= kStep) {
      if (!write(group + "/memory.limit_in_bytes", std::to_string(limit))) break;
    }
    Begin();
    AwaitLosses({"thread_storage"});
    EXPECT_TRUE(write(group + "/memory.limit_in_bytes", "-1"));
    // On a busy machine the waits of all these threads are long, and end together.
    ExpectNothingElse({"thread_storage"},
                      {"thread_vanished", "event_ring_full", "exit_ring_full", "heap_storage",
                       "stack_ring_full", "cpu_sample_lost", "mapping_lost", "long_wait_lost"});
  }
  daemon_.reset();
  std::filesystem::remove(group, error);
}

// Endings of stacks.

class EndingsTest : public LossesTest {
 protected:
  // How many samples of threads of that name end so.
  static uint64_t Count(const Answer& answer, const std::string& thread,
                        const std::string& ending) {
    uint64_t count = 0;
    for (const Sample& sample : answer.samples) {
      if (!thread.empty() && answer.threads.at(sample.thread).name != thread) continue;
      if (sample.stack == 0) continue;
      const std::vector<Frame> frames = answer.FramesOf(sample);
      if (!frames.empty() && frames.back().function == ending &&
          frames.back().kind == v1::FRAME_KIND_SYNTHETIC && !answer.IsComplete(sample)) {
        count += sample.count;
      }
    }
    return count;
  }

  void AwaitEnding(const std::string& thread, const std::string& ending) {
    uint64_t count = 0;
    EXPECT_TRUE(Eventually(kPatience,
                           [&] {
                             const auto answer = daemon_->FetchProcess(target_->pid());
                             if (!answer.ok()) return false;
                             count = Count(*answer, thread, ending);
                             return count > 0;
                           }))
        << thread << ": " << ending;
    if (count > 0) Observe("ending", ending, count);
  }
};

TEST_F(EndingsTest, ThreadsThatWaitInOddPlaces) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "endings"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitEnding("too-deep", "[stack too deep]");
  AwaitEnding("no-rule", "[no unwind rule]");
  AwaitEnding("not-growing", "[stack does not grow]");
  AwaitEnding("not-supported", "[unwind rule not supported]");
  AwaitEnding("not-mapped", "[address not mapped]");
  AwaitEnding("unreadable", "[stack unreadable]");
  // Named by the kernel, after the process.
  AwaitEnding(absl::StrCat("iou-sqp-", target_->pid()), "[no user stack]");
  ExpectAccounts();
  ExpectEnds();
}

TEST_F(EndingsTest, ThreadsThatRunWhileTheyAreWalked) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "switches"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitEnding("", "[torn walk]");
  ExpectAccounts();
  ExpectEnds();
}

TEST_F(EndingsTest, StacksWithoutRoomInTheRing) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "sleepers", "64"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--limit", "ring=4K"}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitEnding("", "[stack lost]");
  ExpectAccounts();
  ExpectEnds();
}

TEST_F(EndingsTest, MappingsThatChangeAllTheTime) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"strain", "maps"}));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitEnding("sleeper", "[memory map busy]");
  ExpectAccounts();
  ExpectEnds();
}

// Rules of a library are asked for when the first stack is seen to lie in it.
TEST_F(EndingsTest, LibrariesSeenForTheFirstTime) {
  std::vector<std::string> argv = {"strain", "modules"};
  for (int i = 0; i < 50; ++i) {
    const std::string copy = absl::StrCat(directory_.path(), "/plugin", i, ".so");
    ASSERT_TRUE(std::filesystem::copy_file(test::InBuild("libwaiter_plugin.so"), copy));
    argv.push_back(copy);
  }
  ASSERT_NO_FATAL_FAILURE(StartTarget(argv));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  AwaitEnding("opener", "[unwind rules pending]");
  ExpectAccounts();
  ExpectEnds();
}

// Twice as many libraries as there is room for, one at a time.
TEST_F(EndingsTest, MoreLibrariesThanSlots) {
  constexpr int kLibraries = 80, kSlots = 40;
  std::vector<std::string> argv = {"strain", "closes"};
  for (int i = 0; i < kLibraries; ++i) {
    const std::string copy = absl::StrCat(directory_.path(), "/plugin", i, ".so");
    ASSERT_TRUE(std::filesystem::copy_file(test::InBuild("libwaiter_plugin.so"), copy));
    argv.push_back(copy);
  }
  ASSERT_NO_FATAL_FAILURE(StartTarget(argv));
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--limit", absl::StrCat("modules=", kSlots)}));
  ASSERT_NO_FATAL_FAILURE(Begin());
  // Whether a whole stack was seen in a library.
  std::set<std::string> seen;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    const auto answer = daemon_->FetchProcess(target_->pid());
    if (!answer.ok()) return false;
    for (const Sample& sample : answer->samples) {
      if (sample.stack == 0 || !answer->IsComplete(sample)) continue;
      for (const Frame& frame : answer->FramesOf(sample)) {
        if (frame.function == "PluginNap") seen.insert(frame.module);
      }
    }
    return seen.contains(absl::StrCat("plugin", kLibraries - 1, ".so"));
  })) << "the last one";
  EXPECT_TRUE(seen.contains("plugin0.so") || seen.contains("plugin1.so")) << "an early one";
  EXPECT_GT(seen.size(), size_t{kSlots}) << "more than there is room for at one time";
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->module_slots(), uint64_t{kSlots});
  EXPECT_LE(status->module_slots_in_use(), uint64_t{kSlots});
  EXPECT_GT(status->module_slots_in_use(), 0U);
  EXPECT_GT(status->retired_modules(), 0U);
  ExpectAccounts();
  ExpectEnds();
}

}  // namespace
}  // namespace profd::e2e
