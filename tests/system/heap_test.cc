// Allocations by stack where a scenario cannot say it: programs that are stripped or given a debug
// file first, a profd that is killed in the middle, one process after another, and real programs
// that measure nothing of themselves. Known arithmetic is in tests/scenarios/alloc-*.toml.
#include "tests/system/harness/heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/clock.h"
#include "daemon/base/fd.h"
#include "nlohmann/json.hpp"
#include "tests/support/machine.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/servers.h"

namespace profd::e2e {
namespace {

using testing::HasSubstr;

void ExpectBySite(const Answer& answer, const nlohmann::json& account) {
  const bool freed = answer.type().name() == "free";
  std::map<std::string, int64_t> by_alloc = BytesBy(answer, "AllocSite");
  std::map<std::string, int64_t> by_free = BytesBy(answer, "FreeSite");
  for (size_t i = 0; i < account["sites"].size(); ++i) {
    const nlohmann::json& site = account["sites"][i];
    const auto usable = [&](const char* what) { return site[what]["usable"].get<double>(); };
    const auto expect = [&](int64_t bytes, double truth) {
      EXPECT_NEAR(static_cast<double>(bytes), truth, 0.03 * truth) << site.dump();
    };
    const int64_t by_site = by_alloc[absl::StrCat("AllocSite", i)];
    if (!freed) {
      expect(by_site, usable("allocated"));
      continue;
    }
    expect(by_free[absl::StrCat("FreeSite", i)], usable("released"));
    expect(by_site, usable("freed") - usable("released"));  // by its realloc
  }
}

// The program allocates the same in every run, so its threads pass jemalloc's marks in the same
// places: shares are as good in one run as in the next.
class KnownArithmetic : public HeapTest {
 protected:
  static constexpr int kSites = 3, kThreads = 4;

  void Check(const std::string& binary, const std::string& found_by, bool symbols);
};

void KnownArithmetic::Check(const std::string& binary, const std::string& found_by, bool symbols) {
  // A GiB and more, of sizes that are small against jemalloc's interval (docs/sampling.md).
  auto target =
      Allocating::Start(binary, {"n=400000", "size=700", absl::StrCat("threads=", kThreads),
                                 absl::StrCat("sites=", kSites), "calloc=20", "aligned=10",
                                 "realloc=10", "free=50", "by=next"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
  const v1::AllocatorStatus allocator = AwaitWatched(target->pid());
  EXPECT_EQ(allocator.allocator(), "jemalloc");
  EXPECT_EQ(allocator.found_by(), found_by);
  EXPECT_THAT(allocator.version(), HasSubstr("5.3"));
  EXPECT_EQ(allocator.note(), "");
  const nlohmann::json account = target->Run();
  ASSERT_TRUE(account.is_object());

  for (const auto& [kind, name] : {std::pair<std::string, std::string>{"alloc", "allocated"},
                                   std::pair<std::string, std::string>{"free", "freed"}}) {
    SCOPED_TRACE(name);
    const Answer answer = Fetch(target->pid(), kind);
    EXPECT_EQ(answer.type().name(), kind);
    EXPECT_GT(answer.type().watched_ns(), 0);
    ExpectAddsUp(answer);
    const v1::HeapTotal& heap = answer.type().total();
    EXPECT_EQ(heap.gaps(), 0U) << heap.DebugString();
    EXPECT_GE(Coverage(heap), 0.999);
    EXPECT_GE(WholeShare(answer), 0.99) << Incomplete(answer);
    EXPECT_GT(answer.cost().heap_events(), heap.events() / 2);
    EXPECT_GT(answer.cost().heap_in_path_ns(), 0);

    ExpectExactByThread(answer, account, name);
    EXPECT_NEAR(static_cast<double>(TotalBytes(answer)), UsableBytes(account, name),
                kThreads * kInterval);
    if (symbols) ExpectBySite(answer, account);
  }
  EXPECT_EQ(daemon_->Stop(), 0);
}

void Execute(const std::vector<std::string>& argv) {
  const auto done = RunToEnd({.argv = argv}, seconds(60));
  ASSERT_TRUE(done.ok()) << done.status();
  ASSERT_EQ(done->code, 0) << done->err;
}

TEST_F(KnownArithmetic, AReleaseIsFoundByShape) {
  if (!IsBuilt("alloc_jemalloc_5.3.1")) GTEST_SKIP() << "not built";
  const TemporaryDirectory directory;
  const std::string program = directory.path() + "/alloc_stripped";
  ASSERT_NO_FATAL_FAILURE(Execute({"strip", "-o", program, AllocBinary("alloc_jemalloc_5.3.1")}));
  Check(program, "shape", false);
}

// A program with a build-id of its own, whose symbols are where a distribution installs them.
// Another program's build-id would let that be found by them, too.
class DebugFile {
 public:
  DebugFile() { Make(); }
  ~DebugFile() {
    unlink(path_.c_str());
    rmdir(folder_.c_str());  // if it was made for this one
  }
  DebugFile(const DebugFile&) = delete;
  DebugFile& operator=(const DebugFile&) = delete;

  const std::string& program() const { return program_; }

 private:
  void Make() {
    const std::string note = directory_.path() + "/note", whole = directory_.path() + "/whole";
    ASSERT_NO_FATAL_FAILURE(Execute({"objcopy", "--dump-section", ".note.gnu.build-id=" + note,
                                     AllocBinary("alloc_jemalloc_static"), whole}));
    const auto read = ReadWholeFile(note);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_GT(read->size(), kIdBytes);
    std::random_device random;
    std::string id;
    for (size_t i = 0; i < kIdBytes; ++i) id += static_cast<char>(random());
    std::ofstream(note) << read->substr(0, read->size() - kIdBytes) << id;
    ASSERT_NO_FATAL_FAILURE(Execute({"objcopy", "--update-section", ".note.gnu.build-id=" + note,
                                     AllocBinary("alloc_jemalloc_static"), whole}));
    ASSERT_NO_FATAL_FAILURE(Execute({"strip", "-o", program_, whole}));
    const std::string hex = absl::BytesToHexString(id);
    folder_ = "/usr/lib/debug/.build-id/" + hex.substr(0, 2);
    path_ = absl::StrCat(folder_, "/", hex.substr(2), ".debug");
    std::filesystem::create_directories(folder_);
    ASSERT_NO_FATAL_FAILURE(Execute({"objcopy", "--only-keep-debug", whole, path_}));
  }

  static constexpr size_t kIdBytes = 20;
  const TemporaryDirectory directory_;
  const std::string program_ = directory_.path() + "/alloc_stripped";
  std::string folder_, path_;
};

TEST_F(KnownArithmetic, StrippedIsFoundByItsDebugFile) {
  if (!IsBuilt("alloc_jemalloc_static")) GTEST_SKIP() << "not built";
  const DebugFile debug;
  if (HasFailure()) return;
  Check(debug.program(), "debug file", true);
}

// kill -9 in the middle: the target goes on as if nothing had been, and the next profd picks it up.
TEST_F(HeapTest, TargetOutlivesAKilledProfd) {
  const std::string binary = AllocBinary("alloc_jemalloc_stripped");
  if (!IsBuilt("alloc_jemalloc_stripped")) GTEST_SKIP() << "not built";
  auto target = Allocating::Start(binary, {"n=40000", "size=10000", "threads=2", "free=50"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
  AwaitWatched(target->pid());
  target->Go();
  daemon_->process().Signal(SIGKILL);
  ASSERT_TRUE(target->AwaitReady()) << "the target did not survive";
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
  AwaitWatched(target->pid());
  target->Go();
  const nlohmann::json account = target->Account();
  ASSERT_TRUE(account.is_object());
  const Answer freed = Fetch(target->pid(), "free");
  ExpectAddsUp(freed);
  EXPECT_GE(Coverage(freed.type().total()), 0.999);
  // All of the second phase, from its first event on.
  const auto usable = account["total"]["freed"]["usable"].get<double>();
  EXPECT_NEAR(static_cast<double>(TotalBytes(freed)), usable, 2 * kInterval);
  EXPECT_EQ(daemon_->Stop(), 0);
  target->process().CloseStdin();
  EXPECT_EQ(target->process().Wait(seconds(60)), 0);
}

// The governor: with a budget far too small stacks are taken of few events, or none; totals stay.
TEST_F(HeapTest, TotalsStayExactWhenStacksAreGivenUp) {
  const std::string binary = AllocBinary("alloc_jemalloc_static");
  if (!IsBuilt("alloc_jemalloc_static")) GTEST_SKIP() << "not built";
  auto target = Allocating::Start(binary, {"n=3000000", "size=1000", "calloc=100"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(
      StartDaemon(std::to_string(target->pid()), {"--budget", "0.01%", "--disable", "switch"}));
  AwaitWatched(target->pid());
  target->process().Write("go\n");
  bool given_up = false;
  for (int i = 0; i < 200 && !given_up; ++i) {
    std::this_thread::sleep_for(milliseconds(50));
    const auto status = daemon_->Status();
    ASSERT_TRUE(status.ok());
    for (const v1::GovernedSource& source : status->governor().sources()) {
      given_up |= source.name() == "heap" && source.level() > 0;
    }
  }
  EXPECT_TRUE(given_up);
  ASSERT_TRUE(target->AwaitReady());
  // Drains are rare with such a budget, and one may find the thread between two slices.
  constexpr double kAllocated = 3'000'000.0 * 1024;
  Answer answer = Fetch(target->pid(), "alloc");
  Eventually(kPatience, [&] {
    answer = Fetch(target->pid(), "alloc");
    return static_cast<double>(answer.type().total().bytes()) > kAllocated - kInterval;
  });
  ExpectAddsUp(answer);
  EXPECT_NEAR(static_cast<double>(answer.type().total().bytes()), kAllocated, kInterval);
}

// A thread that lives while no probe stands is counted whole, from its data as it ends.
TEST_F(HeapTest, ThreadsBetweenSlicesAreCounted) {
  constexpr int kOnePartIn512 = 7;  // the place of 512 in kHeapSlices
  if (!IsBuilt("alloc_jemalloc_static")) GTEST_SKIP() << "not built";
  auto target = Allocating::Start(AllocBinary("alloc_jemalloc_static"),
                                  {"n=300000", "size=1000", "calloc=100"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(
      StartDaemon(std::to_string(target->pid()), {"--budget", "0.002%", "--disable", "switch"}));
  AwaitWatched(target->pid());
  ASSERT_TRUE(target->Run().is_object());
  ASSERT_TRUE(Eventually(kPatience, [&] {
    target->process().Write("thread\n");  // there has to be something to be given up
    EXPECT_TRUE(target->Account().is_object());
    const auto status = daemon_->Status();
    if (!status.ok()) return false;
    const auto& sources = status->governor().sources();
    return std::any_of(sources.begin(), sources.end(), [](const v1::GovernedSource& source) {
      return source.name() == "heap" && source.level() >= kOnePartIn512;
    });
  }));
  std::map<int, int64_t> allocated;
  for (int i = 0; i < 4; ++i) {
    target->process().Write("thread\n");
    const nlohmann::json account = target->Account()["total"];
    allocated[account["tid"].get<int>()] = account["counted"]["allocated"].get<int64_t>();
  }
  const Answer answer = Fetch(target->pid(), "alloc");
  ExpectAddsUp(answer);
  for (const Thread& thread : answer.threads) {
    const auto counted = allocated.find(thread.tid);
    if (counted == allocated.end()) continue;
    EXPECT_NEAR(static_cast<double>(thread.heap.bytes()), static_cast<double>(counted->second),
                kInterval);
    allocated.erase(counted);
  }
  EXPECT_TRUE(allocated.empty()) << allocated.begin()->first << " is missing";
  // All of that time was one in which allocations were counted.
  EXPECT_TRUE(Near(answer.type().watched_ns(),
                   answer.coverage().end_ns() - answer.coverage().begin_ns(), 0.01));
}

// Most events run through code that nothing finds: once that is known, the slow path tells of them,
// in processes that come later from their begin.
TEST_F(HeapTest, SlowPathIsWatchedWhereEventsAreMissed) {
  if (!IsBuilt("alloc_jemalloc_hidden")) GTEST_SKIP() << "not built";
  // A name of its own: other tests run the same program at the same time.
  TemporaryDirectory directory;
  const std::string binary = directory.path() + "/mostly_hidden";
  std::filesystem::copy_file(AllocBinary("alloc_jemalloc_hidden"), binary);
  constexpr int kSites = 3;
  const std::vector<std::string> arguments = {"n=400000", "size=700", "threads=2",
                                              absl::StrCat("sites=", kSites), "free=50"};
  auto first = Allocating::Start(binary, arguments);
  ASSERT_NE(first, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon("^mostly_hidden$"));
  EXPECT_EQ(AwaitWatched(first->pid()).note(), "");
  first->Run();
  const Answer before = Fetch(first->pid(), "alloc");
  ExpectAddsUp(before);
  EXPECT_LT(Coverage(before.type().total()), 0.3) << before.type().total().DebugString();

  auto second = Allocating::Start(binary, arguments);
  ASSERT_NE(second, nullptr);
  ASSERT_TRUE(Eventually(kPatience, [&] {
    return AwaitWatched(second->pid()).note() ==
           "some allocation events run in copies of the code that profd did not find; it sees them "
           "a little later, in the allocator's slow path; totals are exact";
  })) << AwaitWatched(second->pid()).DebugString();
  std::this_thread::sleep_for(milliseconds(500));  // until its own stands
  const nlohmann::json account = second->Run();
  ASSERT_TRUE(account.is_object());
  for (const auto& [kind, name] : {std::pair<std::string, std::string>{"alloc", "allocated"},
                                   std::pair<std::string, std::string>{"free", "freed"}}) {
    SCOPED_TRACE(name);
    const Answer answer = Fetch(second->pid(), kind);
    ExpectAddsUp(answer);
    const v1::HeapTotal& heap = answer.type().total();
    EXPECT_GE(Coverage(heap), 0.98) << heap.DebugString();
    EXPECT_GT(heap.late_bytes(), heap.weight_bytes() / 2);
    EXPECT_LT(heap.late_bytes(), heap.weight_bytes());
    if (kind == "free") continue;
    ExpectExactByThread(answer, account, name);
    // The slow path is at a site by chance: five standard deviations of so many draws.
    const double error = 5 * std::sqrt((kSites - 1.0) / static_cast<double>(heap.events()));
    EXPECT_LT(error, 0.2) << heap.DebugString();
    std::map<std::string, int64_t> by = BytesBy(answer, "AllocSite");
    for (const nlohmann::json& site : account["sites"]) {
      const auto usable = site["allocated"]["usable"].get<double>();
      EXPECT_NEAR(static_cast<double>(by[site["name"].get<std::string>()]), usable, error * usable)
          << site.dump() << heap.DebugString();
    }
  }
  EXPECT_EQ(daemon_->Stop(), 0);
}

// A server that listens on `socket`; null when it does not.
std::unique_ptr<Subprocess> StartRedis(const std::string& socket) {
  auto server = Subprocess::Start(
      {.argv = {"redis-server", "--port", "0", "--unixsocket", socket, "--save", ""}});
  EXPECT_TRUE(server.ok()) << server.status();
  if (!server.ok()) return nullptr;
  const bool listens =
      (*server)->LineWith(Stream::kStdout, "accept connections", seconds(60)).has_value();
  EXPECT_TRUE(listens);
  return listens ? *std::move(server) : nullptr;
}

TEST_F(HeapTest, RedisIsCoveredWhole) {
  if (FindProgram("redis-server").empty() || FindProgram("redis-benchmark").empty())
    GTEST_SKIP() << "no redis";
  TemporaryDirectory directory;
  const std::string socket = directory.path() + "/redis";
  const std::unique_ptr<Subprocess> server = StartRedis(socket);
  ASSERT_NE(server, nullptr);
  const int pid = server->pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  EXPECT_THAT(AwaitWatched(pid).module(), HasSubstr("libjemalloc"));
  ASSERT_TRUE(daemon_->AwaitTarget(pid).has_value());
  const auto load = RunToEnd({.argv = {"redis-benchmark", "-s", socket, "-t", "set", "-n", "300000",
                                       "-d", "512", "-r", "100000", "-P", "16", "-q"}},
                             seconds(60));
  ASSERT_TRUE(load.ok()) << load.status();
  for (const char* kind : {"alloc", "free"}) {
    const Answer answer = Fetch(pid, kind);
    ExpectAddsUp(answer);
    const v1::HeapTotal& heap = answer.type().total();
    EXPECT_GT(heap.events(), 500U);
    EXPECT_GE(Coverage(heap), 0.999) << heap.DebugString();
    EXPECT_GE(WholeShare(answer), 0.99);
  }
  EXPECT_EQ(daemon_->Stop(), 0);
}

// Allocations that cost too much are seen in slices of the time: within the budget, without gaps,
// and still by whole stacks; totals come from the counters, slice or not.
TEST_F(HeapTest, StacksAreTakenInSlicesOfTheTime) {
  if (FindProgram("redis-server").empty() || FindProgram("redis-benchmark").empty())
    GTEST_SKIP() << "no redis";
  constexpr double kBudget = 0.002;
  constexpr double kWhole = 0.99;
  TemporaryDirectory directory;
  const std::string socket = directory.path() + "/redis";
  const std::unique_ptr<Subprocess> server = StartRedis(socket);
  ASSERT_NE(server, nullptr);
  const int pid = server->pid();
  ASSERT_NO_FATAL_FAILURE(
      StartDaemon(std::to_string(pid), {"--budget", "0.2%", "--disable", "switch,faults"}));
  AwaitWatched(pid);
  // On a busy machine the rules of its modules may come later than the first slices.
  ASSERT_TRUE(daemon_->AwaitTarget(pid).has_value());
  auto load = Subprocess::Start({.argv = {"redis-benchmark", "-s", socket, "-t", "set", "-l", "-d",
                                          "2048", "-r", "10000", "-P", "16", "-q"}});
  ASSERT_TRUE(load.ok()) << load.status();
  v1::GovernedSource source;
  ASSERT_TRUE(Eventually(kPatience, [&] {
    const auto status = daemon_->Status();
    if (!status.ok()) return false;
    for (const v1::GovernedSource& s : status->governor().sources()) {
      if (s.name() == "heap") source = s;
    }
    return source.level() >= 2;
  })) << source.DebugString();
  const int64_t begin = WallNs();
  std::this_thread::sleep_for(seconds(4));
  v1::FetchRequest request;
  request.add_sample_types("alloc");
  request.mutable_window()->set_begin_ns(begin);
  // At the highest levels slices are rare. A drain may count events whose stacks come with the next
  // one, so that the very first of them have none for a moment.
  auto answer = daemon_->Fetch(request);
  Eventually(kPatience, [&] {
    answer = daemon_->Fetch(request);
    return !answer.ok() || (answer->type().total().events() > 20 && WholeShare(*answer) >= kWhole);
  });
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok());
  for (const v1::AllocatorStatus& allocator : status->allocators()) {
    EXPECT_TRUE(allocator.watched()) << allocator.DebugString();
  }
  ExpectAddsUp(*answer);
  const v1::HeapTotal& heap = answer->type().total();
  EXPECT_GT(heap.events(), 20U);
  EXPECT_GE(Coverage(heap), 0.98) << heap.DebugString();
  EXPECT_LT(heap.weight_bytes(), heap.bytes() / 2) << "it was not in slices";
  EXPECT_GE(WholeShare(*answer), kWhole) << heap.DebugString() << Incomplete(*answer);
  const v1::Cost& cost = answer->cost();
  EXPECT_LT(static_cast<double>(cost.heap_in_path_ns()),
            2 * kBudget * static_cast<double>(cost.duration_ns()));
  // Nearly all of the time was one in which allocations were counted.
  EXPECT_TRUE(Near(answer->type().watched_ns(),
                   answer->coverage().end_ns() - answer->coverage().begin_ns(), 0.01));
  EXPECT_EQ(daemon_->Stop(), 0);
}

// The linker put copies of the event function of rustc's jemalloc into its callers, where nearly
// all events run: they have probes, too.
class Compiles : public HeapTest {
 protected:
  // The rustc behind the command of that name, which may be rustup's.
  static std::string Sysroot() {
    const auto said = RunToEnd({.argv = {"rustc", "--print", "sysroot"}}, seconds(60));
    EXPECT_TRUE(said.ok()) << said.status();
    return said.ok() ? std::string(absl::StripSuffix(said->out, "\n")) : "";
  }
  // With the rustc of this command.
  void Check(std::vector<std::string> argv, bool names) {
    TemporaryDirectory directory;
    std::ofstream(directory.path() + "/main.rs") << RustProgram(40);
    StartDaemon("rustc");
    if (HasFatalFailure()) return;
    argv.insert(argv.end(), {"-O", "main.rs", "-o", "main"});
    const auto built = RunToEnd({.argv = argv, .directory = directory.path()}, seconds(120));
    EXPECT_TRUE(built.ok() && built->code == 0) << built.status() << (built.ok() ? built->err : "");
    v1::FetchRequest request;
    request.add_sample_types("alloc");
    request.mutable_window()->set_since_ns(int64_t{600} * 1'000'000'000);
    const auto answer = daemon_->Fetch(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (HasFailure()) return;
    ExpectAddsUp(*answer);
    const v1::HeapTotal& heap = answer->type().total();
    EXPECT_GT(heap.bytes(), 50'000'000);
    // What the events tell, seen and missed, is all but the ends of the exact totals.
    EXPECT_NEAR(static_cast<double>(heap.weight_bytes() + heap.unseen_bytes()),
                static_cast<double>(heap.bytes()), 0.1 * static_cast<double>(heap.bytes()));
    EXPECT_GE(Coverage(heap), 0.999) << heap.DebugString();
    EXPECT_GE(WholeShare(*answer), 0.99) << Incomplete(*answer);
    const Told told = ToldIn(*answer);
    EXPECT_GE(told.whole, 0.95);
    EXPECT_GE(told.named, names ? 0.95 : 0);
    EXPECT_EQ(daemon_->Stop(), 0);
  }
};

TEST_F(Compiles, LinkTimeOptimisedCopiesAreCovered) {
  REQUIRE_FACT("rustc.jemalloc");
  Check({FindProgram("rustc")}, true);
}

// The copies are known by their shape alone.
TEST_F(Compiles, LinkTimeOptimisedCopiesAreCoveredWithoutSymbols) {
  REQUIRE_FACT("rustc.jemalloc");
  const std::string sysroot = Sysroot();
  TemporaryDirectory directory;
  const std::string stripped = directory.path() + "/bin/rustc";
  std::filesystem::create_directory(directory.path() + "/bin");
  std::filesystem::create_directory_symlink(sysroot + "/lib", directory.path() + "/lib");
  ASSERT_NO_FATAL_FAILURE(Execute({"strip", "-o", stripped, sysroot + "/bin/rustc"}));
  Check({stripped, "--sysroot", sysroot}, false);
}

}  // namespace
}  // namespace profd::e2e
