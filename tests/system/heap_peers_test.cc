// Allocations by stack beside other tools' numbers for the same program: jemalloc's own profile of
// the same run, and heaptrack in a run of its own. Not scenarios: those do not read other
// tools' profiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/fd.h"
#include "nlohmann/json.hpp"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/heap.h"
#include "tests/system/harness/heap_dump.h"
#include "tests/system/harness/servers.h"

namespace profd::e2e {
namespace {

// One sample of jemalloc's in 64 KiB, about as many as profd has.
constexpr char kProfiling[] = "prof:true,prof_accum:true,lg_prof_sample:16";
constexpr size_t kTop = 10;
// Some forty comparisons of two estimates: chance breaks one of them in one of 400 runs.
constexpr double kSigmas = 4;

class HeapPeers : public HeapTest {
 protected:
  // Same stacks, same bytes, same sum.
  void ExpectAgree(const StackBytes& ours, const StackBytes& theirs) {
    ExpectSameTop(ours, theirs, kTop, kSigmas);
    const Estimate all = Sum(theirs);
    EXPECT_NEAR(Sum(ours).bytes, all.bytes, kSigmas * all.error + kInterval);
    EXPECT_GT(Sum(ours).bytes, 200e6) << "too little to compare";
  }
};

// A command of redis as it goes over the wire.
std::string Wire(const std::vector<std::string>& words) {
  std::string text = absl::StrCat("*", words.size(), "\r\n");
  for (const std::string& word : words) {
    absl::StrAppend(&text, "$", word.size(), "\r\n", word, "\r\n");
  }
  return text;
}

// What many clients would send: redis-benchmark repeats the same sizes in the same order, with
// which jemalloc's events fall into step (docs/sampling.md).
std::string MixedCommands(int count, std::mt19937* random) {
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>((*random)()) % limit; };
  const auto name = [&](const char* kind, uint32_t limit) {
    return absl::StrCat(kind, ":", below(limit));
  };
  const auto value = [&](uint32_t limit) { return std::string(8 + below(limit), 'v'); };
  std::string text;
  for (int i = 0; i < count; ++i) {
    switch (below(6)) {
      case 0:
        text += Wire({"SET", name("string", 50'000), value(1'500)});
        break;
      case 1:
        text += Wire({"HSET", name("hash", 5'000), name("field", 1'000), value(300)});
        break;
      case 2:
        text += Wire({"ZADD", name("sorted", 500), absl::StrCat(below(1'000'000)), value(100)});
        break;
      case 3:
        text += Wire({"SADD", name("set", 500), name("member", 100'000)});
        break;
      case 4:
        text += Wire({"RPUSH", name("list", 20'000), value(200)});
        break;
      default:
        text += Wire({"APPEND", name("log", 20'000), value(100)});
        break;
    }
  }
  return text;
}

bool IsJemalloc(const CodeAddress& address) {
  return absl::StartsWith(address.module, "libjemalloc");
}

// A redis-server, and what many clients send it.
class MixedRedis {
 public:
  static bool IsInstalled() {
    return !FindProgram("redis-server").empty() && !FindProgram("redis-cli").empty();
  }

  // `under` comes before the server in the command line.
  explicit MixedRedis(std::vector<std::string> under, std::vector<std::string> options = {},
                      Allocating::Environment environment = {}) {
    std::vector<std::string> argv = std::move(under);
    for (const char* word : {"redis-server", "--port", "0", "--save", "", "--unixsocket"}) {
      argv.push_back(word);
    }
    argv.push_back(socket_);
    argv.insert(argv.end(), options.begin(), options.end());
    auto server = Subprocess::Start({.argv = argv, .environment = std::move(environment)});
    EXPECT_TRUE(server.ok()) << server.status();
    if (!server.ok()) return;
    server_ = *std::move(server);
    EXPECT_TRUE(server_->LineWith(Stream::kStdout, "accept connections", seconds(30)));
  }

  Subprocess& process() { return *server_; }
  const std::string& directory() const { return directory_.path(); }

  // What it answers to a command; empty, where it does not.
  std::string Ask(const std::vector<std::string>& words) {
    std::vector<std::string> argv = {"redis-cli", "-s", socket_};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto said = RunToEnd({.argv = argv}, seconds(60));
    return said.ok() ? said->out : "";
  }

  // The same commands each time.
  void Load() {
    auto client = Subprocess::Start({.argv = {"redis-cli", "-s", socket_, "--pipe"}});
    ASSERT_TRUE(client.ok()) << client.status();
    std::mt19937 random(1);
    for (int i = 0; i < 90; ++i) ASSERT_TRUE((*client)->Write(MixedCommands(10'000, &random)));
    (*client)->CloseStdin();
    EXPECT_TRUE((*client)->LineWith(Stream::kStdout, "errors: 0, replies: 900000", seconds(120)));
  }

 private:
  const TemporaryDirectory directory_;
  const std::string socket_ = directory_.path() + "/redis";
  std::unique_ptr<Subprocess> server_;
};

// Stripped, with a dynamic jemalloc: stacks are addresses in files, compared to the byte.
TEST_F(HeapPeers, JemallocsProfileOfRedis) {
  if (!MixedRedis::IsInstalled()) GTEST_SKIP() << "no redis";
  MixedRedis redis({}, {"--enable-debug-command", "yes"}, {{"MALLOC_CONF", kProfiling}});
  if (HasFailure()) return;
  const int pid = redis.process().pid();
  const auto dump = [&](const std::string& name) {
    const std::string path = absl::StrCat(redis.directory(), "/", name);
    redis.Ask({"debug", "mallctl-str", "prof.dump", path});
    return access(path.c_str(), R_OK) == 0 ? path : "";
  };
  const std::string before = dump("before");
  if (before.empty()) GTEST_SKIP() << "this redis cannot write jemalloc's profile";
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  AwaitWatched(pid);
  ASSERT_NO_FATAL_FAILURE(redis.Load());
  const std::string after = dump("after");
  ASSERT_NE(after, "");
  const Answer answer = Fetch(pid, "alloc");
  ExpectAddsUp(answer);
  EXPECT_EQ(answer.type().total().gaps(), 0U);
  const auto theirs = AllocatedBetween(before, after);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  ExpectAgree(WithoutAllocator(StacksOf(answer), IsJemalloc),
              WithoutAllocator(*theirs, IsJemalloc));
  EXPECT_EQ(daemon_->Stop(), 0);
}

// Static and prefixed. The allocator's frames are those in C.
TEST_F(HeapPeers, JemallocsProfileOfTheStandin) {
  if (!IsBuilt("standin")) GTEST_SKIP() << WhyNoStandin();
  TemporaryDirectory directory;
  const std::string dump = directory.path() + "/dump";
  auto target = Allocating::Start(AllocBinary("standin"),
                                  {"alloc", "--threads", "3", "--tokio", "1", "--count", "200000",
                                   "--size", "900", "--sites", "8", "--skew", "1", "--dump", dump},
                                  {{"_RJEM_MALLOC_CONF", kProfiling}});
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  AwaitWatched(pid);
  target->Go();
  ASSERT_TRUE(target->AwaitReady());
  const Answer answer = Fetch(pid, "alloc");
  ExpectAddsUp(answer);
  EXPECT_EQ(answer.type().total().gaps(), 0U);
  const auto theirs = AllocatedBetween(dump + ".0", dump + ".1");
  ASSERT_TRUE(theirs.ok()) << theirs.status();

  const StackBytes ours = StacksOf(answer);
  CodeNames names = NamesIn(AllocBinary("standin"), "standin", {&ours, &*theirs});
  const auto is_allocator = [&](const CodeAddress& address) {
    return address.module == "standin" && !absl::StrContains(names[address], "::");
  };
  ExpectAgree(WithoutAllocator(ours, is_allocator), WithoutAllocator(*theirs, is_allocator));
  EXPECT_EQ(daemon_->Stop(), 0);
  target->Go();
  EXPECT_TRUE(target->Account().is_object());
  EXPECT_EQ(target->End(), 0);
}

// heaptrack's recording of a run, unpacked. Empty, with a failure, if there is none.
std::string Unpacked(const std::string& recorded) {
  const bool zstd = access((recorded + ".raw.zst").c_str(), R_OK) == 0;
  const std::string packed = recorded + (zstd ? ".raw.zst" : ".raw.gz"), plain = recorded + ".raw";
  const auto done = RunToEnd({.argv = {"sh", "-c", "exec \"$0\" -dc \"$1\" >\"$2\"",
                                       zstd ? "zstd" : "gzip", packed, plain}},
                             seconds(60));
  EXPECT_TRUE(done.ok() && done->code == 0) << packed;
  return done.ok() && done->code == 0 ? plain : "";
}

// Bytes by site of a flame graph of heaptrack: "root;...;leaf bytes" a line.
std::map<std::string, double> BySite(const std::string& text) {
  std::map<std::string, double> bytes;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const size_t space = line.rfind(' ');
    double cost = 0;
    if (space == absl::string_view::npos || !absl::SimpleAtod(line.substr(space + 1), &cost)) {
      ADD_FAILURE() << "heaptrack says: " << line;
      continue;
    }
    for (const absl::string_view frame : absl::StrSplit(line.substr(0, space), ';')) {
      const size_t at = frame.find("AllocSite");
      if (at == absl::string_view::npos) continue;
      size_t end = at + 9;
      while (end < frame.size() && frame[end] >= '0' && frame[end] <= '9') ++end;
      bytes[std::string(frame.substr(at, end - at))] += cost;
    }
  }
  return bytes;
}

// Two runs of one program differ by this much, in how its input comes in pieces.
constexpr double kBetweenRuns = 0.02;
// heaptrack keeps 64 frames; compilers have deeper stacks.
constexpr size_t kDepth = 32;

void ExpectAgreeWithHeaptrack(const StackBytes& ours, const std::string& recorded,
                              const std::function<bool(const CodeAddress&)>& is_allocator) {
  const std::string plain = Unpacked(recorded);
  ASSERT_NE(plain, "");
  const auto requested = RequestedIn(plain);
  ASSERT_TRUE(requested.ok()) << requested.status();
  const auto comparable = [&](const StackBytes& stacks) {
    return Innermost(WithoutAllocator(stacks, is_allocator), kDepth);
  };
  StackBytes theirs = comparable(*requested);
  for (auto& [stack, estimate] : theirs) estimate.error = kBetweenRuns * estimate.bytes;
  ExpectSameTop(comparable(ours), theirs, kTop, kSigmas);
  const double all = Sum(theirs).bytes;
  EXPECT_NEAR(Sum(ours).bytes, all, kBetweenRuns * all);
  EXPECT_GT(all, 200e6) << "too little to compare";
}

// Both with their jemalloc: what heaptrack sees asked for, in size classes, is what profd counts.
TEST_F(HeapPeers, HeaptrackOfRedis) {
  if (!MixedRedis::IsInstalled()) GTEST_SKIP() << "no redis";
  if (FindProgram("heaptrack").empty()) GTEST_SKIP() << "no heaptrack";
  MixedRedis redis({});
  if (HasFailure()) return;
  const int pid = redis.process().pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  AwaitWatched(pid);
  ASSERT_NO_FATAL_FAILURE(redis.Load());
  const Answer answer = Fetch(pid, "alloc");
  ExpectAddsUp(answer);
  EXPECT_EQ(daemon_->Stop(), 0);

  const TemporaryDirectory directory;
  const std::string recorded = directory.path() + "/data";
  MixedRedis again({"heaptrack", "--raw", "-o", recorded});
  if (HasFailure()) return;
  ASSERT_NO_FATAL_FAILURE(again.Load());
  again.Ask({"shutdown", "nosave"});
  EXPECT_EQ(again.process().Wait(seconds(60)), 0);
  ExpectAgreeWithHeaptrack(StacksOf(answer), recorded, IsJemalloc);
}

// A compiler in Rust and C++: with jemalloc for profd, with libc's allocator under heaptrack.
TEST_F(HeapPeers, HeaptrackOfRustc) {
  // rustup's has an allocator of its own, which heaptrack cannot see.
  const std::string rustc = "/usr/bin/rustc";
  if (access(rustc.c_str(), X_OK) != 0)
    GTEST_SKIP() << "skipped: rustc.jemalloc: no rustc of the distribution is installed";
  if (FindProgram("heaptrack").empty()) GTEST_SKIP() << "no heaptrack";
  const TemporaryDirectory directory;
  // Waits for its program.
  const auto start = [&](std::vector<std::string> argv, Allocating::Environment environment) {
    argv.insert(argv.end(), {rustc, "-O", "-C", "codegen-units=1", "-o", "main", "-"});
    auto compiler = Subprocess::Start(
        {.argv = argv, .environment = std::move(environment), .directory = directory.path()});
    EXPECT_TRUE(compiler.ok()) << compiler.status();
    return compiler.ok() ? *std::move(compiler) : nullptr;
  };
  const auto compile = [](Subprocess& compiler) {
    compiler.Write(RustProgram(8));
    compiler.CloseStdin();
    EXPECT_EQ(compiler.Wait(seconds(120)), 0) << compiler.Output(Stream::kStderr);
  };
  const auto compiler = start({}, {{"LD_PRELOAD", "libjemalloc.so.2"}});
  ASSERT_NE(compiler, nullptr);
  const int pid = compiler->pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid), {"--budget", "off"}));
  AwaitWatched(pid);
  compile(*compiler);
  const Answer answer = Fetch(pid, "alloc");
  ExpectAddsUp(answer);
  EXPECT_EQ(daemon_->Stop(), 0);

  const std::string recorded = directory.path() + "/data";
  const auto again = start({"heaptrack", "--raw", "-o", recorded}, {});
  ASSERT_NE(again, nullptr);
  compile(*again);
  ExpectAgreeWithHeaptrack(StacksOf(answer), recorded, [](const CodeAddress& address) {
    return IsJemalloc(address) || absl::StartsWith(address.module, "libstdc++");
  });
}

// The same program twice: with jemalloc under profd, with libc's allocator under heaptrack, which
// counts what was asked for and not given back, where profd counts what the allocator gave. The
// program says how much the one is for the other, and frees nothing.
TEST_F(HeapPeers, HeaptrackOfAnotherRun) {
  if (FindProgram("heaptrack").empty()) GTEST_SKIP() << "no heaptrack";
  if (!IsBuilt("alloc_jemalloc_static")) GTEST_SKIP() << "not built";
  constexpr size_t kSites = 4;
  const std::vector<std::string> arguments = {"n=200000",  "size=1400",
                                              "threads=4", absl::StrCat("sites=", kSites),
                                              "calloc=20", "aligned=10"};
  auto target = Allocating::Start(AllocBinary("alloc_jemalloc_static"), arguments);
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
  AwaitWatched(target->pid());
  const nlohmann::json account = target->Run();
  ASSERT_TRUE(account.is_object());
  const Answer answer = Fetch(target->pid(), "alloc");
  ExpectAddsUp(answer);
  std::map<std::string, int64_t> ours = BytesBy(answer, "AllocSite");
  EXPECT_EQ(daemon_->Stop(), 0);
  EXPECT_EQ(target->End(), 0);

  TemporaryDirectory directory;
  std::vector<std::string> under = {"-o", directory.path() + "/data", AllocBinary("alloc_glibc")};
  under.insert(under.end(), arguments.begin(), arguments.end());
  auto second = Allocating::Start("heaptrack", under);
  ASSERT_NE(second, nullptr);
  const nlohmann::json again = second->Run();
  ASSERT_TRUE(again.is_object());
  EXPECT_EQ(second->End(), 0);
  std::string data = directory.path() + "/data.zst";
  if (access(data.c_str(), R_OK) != 0) data = directory.path() + "/data.gz";
  const std::string flame = directory.path() + "/stacks";
  const auto printed =
      RunToEnd({.argv = {"heaptrack_print", "-f", data, "-F", flame, "--flamegraph-cost-type",
                         "leaked", "-p", "0", "-a", "0", "-T", "0"}},
               seconds(60));
  ASSERT_TRUE(printed.ok()) << printed.status();
  ASSERT_EQ(printed->code, 0) << printed->err;
  const auto text = ReadWholeFile(flame);
  ASSERT_TRUE(text.ok()) << text.status();
  const std::map<std::string, double> theirs = BySite(*text);

  EXPECT_EQ(theirs.size(), kSites);
  for (size_t i = 0; i < kSites; ++i) {
    const nlohmann::json& site = account["sites"][i]["allocated"];
    const auto name = account["sites"][i]["name"].get<std::string>();
    SCOPED_TRACE(name);
    const auto requested = site["requested"].get<double>();
    ASSERT_EQ(requested, again["sites"][i]["allocated"]["requested"].get<double>());
    ASSERT_TRUE(theirs.contains(name));
    EXPECT_NEAR(theirs.at(name), requested, 0.01 * requested);
    const double asked_for =
        static_cast<double>(ours[name]) * requested / site["usable"].get<double>();
    EXPECT_NEAR(asked_for, theirs.at(name), 0.03 * theirs.at(name));
  }
}

}  // namespace
}  // namespace profd::e2e
