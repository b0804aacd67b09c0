// The live heap of programs that run with jemalloc's profiling, against their own arithmetic and
// against jemalloc's own profile of the same moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/clock.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/harness/checks.h"
#include "tests/e2e/harness/daemon.h"
#include "tests/e2e/harness/heap.h"

namespace profd::e2e {
namespace {

using Stream = Subprocess::Stream;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kStatic = AllocBinary("alloc_jemalloc_static");
const std::string kStripped = AllocBinary("alloc_jemalloc_stripped");

// What the objects in a heap profile stand for: each stack has its number and bytes, in which
// jemalloc samples once in R bytes, and wants the same unbiasing as any sample.
struct Estimate {
  double bytes = 0;
  double objects = 0;
};

// Of "heap_v2/R", then for each stack "@ addresses" and "  t*: objects: bytes [...]".
Estimate ReadHeapProfile(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  Estimate estimate;
  double interval = 0;
  std::getline(file, line);
  const std::vector<std::string> head = absl::StrSplit(line, '/');
  EXPECT_EQ(head.size(), 2u) << path << ": " << line;
  if (head.size() != 2 || !absl::SimpleAtod(head[1], &interval)) return estimate;
  bool in_stack = false;
  while (std::getline(file, line)) {
    if (line.starts_with("MAPPED_LIBRARIES")) break;
    if (line.starts_with("@")) in_stack = true;
    absl::string_view text = line;
    if (!in_stack || !absl::ConsumePrefix(&text, "  t*: ")) continue;
    const std::vector<std::string> fields =
        absl::StrSplit(text, absl::ByAnyChar(": "), absl::SkipEmpty());
    double objects = 0, bytes = 0;
    EXPECT_GE(fields.size(), 2u) << line;
    if (fields.size() < 2 || !absl::SimpleAtod(fields[0], &objects) ||
        !absl::SimpleAtod(fields[1], &bytes) || objects == 0) {
      continue;
    }
    const double sampled = 1 - std::exp(-bytes / objects / interval);
    estimate.bytes += bytes / sampled;
    estimate.objects += objects / sampled;
  }
  return estimate;
}

class LiveHeapTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS_ROOT();
    if (!IsBuilt("alloc_jemalloc_static")) GTEST_SKIP() << "not built";
  }

  std::unique_ptr<Subprocess> Start(const std::string& binary, std::vector<std::string> arguments,
                                    const std::string& settings) {
    arguments.insert(arguments.begin(), binary);
    auto process =
        Subprocess::Start({.argv = arguments, .environment = {{"MALLOC_CONF", settings}}});
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return nullptr;
    EXPECT_TRUE((*process)->LineWith(Stream::kStdout, "ready", seconds(30)).has_value());
    return *std::move(process);
  }
  void StartDaemon(int pid, std::vector<std::string> arguments = {}) {
    daemon_.reset();
    arguments.insert(arguments.end(), {"--disable", "bursts"});
    auto daemon =
        Daemon::Start({.targets = {std::to_string(pid)}, .arguments = std::move(arguments)});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }
  // The first phase, to its end, and the second with its account.
  void Allocate(Subprocess& target) {
    target.Write("go\n");
    EXPECT_TRUE(target.LineWith(Stream::kStdout, "ready", seconds(60)).has_value());
  }
  nlohmann::json Free(Subprocess& target) {
    target.Write("go\n");
    const auto line = target.LineWith(Stream::kStdout, "\"total\"", seconds(60));
    EXPECT_TRUE(line.has_value());
    return line ? nlohmann::json::parse(*line) : nlohmann::json();
  }
  // The allocator that runs in a process, as of now.
  v1::AllocatorStatus Allocator(int pid) {
    v1::FetchRequest request;
    request.set_since_ns(1'000'000'000);
    EXPECT_TRUE(daemon_->Fetch(request).ok());  // drains
    const auto status = daemon_->Status();
    EXPECT_TRUE(status.ok()) << status.status();
    if (!status.ok()) return {};
    for (const v1::AllocatorStatus& allocator : status->allocators()) {
      if (std::count(allocator.pids().begin(), allocator.pids().end(), pid) != 0) return allocator;
    }
    return {};  // not found yet
  }
  v1::AllocatorStatus AwaitCounted(int pid) {
    v1::AllocatorStatus allocator;
    EXPECT_TRUE(Eventually(seconds(20), [&] {
      allocator = Allocator(pid);
      return allocator.live_since_ns() != 0;
    })) << allocator.DebugString();
    return allocator;
  }

  std::unique_ptr<Daemon> daemon_;
};

// Of n objects of which each is sampled with probability p, the estimate has the standard error
// sqrt((1 - p) / (n p)) of itself; five of them are passed once in two million runs.
double FiveErrors(double objects, double size, double interval) {
  const double sampled = 1 - std::exp(-size / interval);
  return 5 * std::sqrt((1 - sampled) / (objects * sampled));
}

struct Case {
  std::string program;
  int lg_sample;
  int size;
  int n;
};

class KnownLiveHeap : public LiveHeapTest, public testing::WithParamInterface<Case> {};

TEST_P(KnownLiveHeap, IsWhatWasNotFreedAndWhatJemallocSays) {
  const auto& [program, lg_sample, size, n] = GetParam();
  if (!IsBuilt(program)) GTEST_SKIP() << "not built";
  const double interval = std::ldexp(1.0, lg_sample);
  const TemporaryDirectory directory;
  const std::string dump = directory.path() + "/heap";
  auto target = Start(AllocBinary(program),
                      {absl::StrCat("n=", n), absl::StrCat("size=", size), "threads=3", "sites=4",
                       "calloc=20", "aligned=10", "realloc=10", "free=50", "by=next",
                       "dump=" + dump},
                      absl::StrCat("prof:true,lg_prof_sample:", lg_sample));
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(target->pid()));
  const v1::AllocatorStatus before = AwaitCounted(target->pid());
  EXPECT_EQ(before.live_bytes(), 0);
  EXPECT_EQ(before.sample_bytes(), uint64_t{1} << lg_sample);
  EXPECT_EQ(before.live_note(), "");
  EXPECT_NEAR(static_cast<double>(before.live_since_ns()), static_cast<double>(WallNs()), 60e9);

  Allocate(*target);
  const v1::AllocatorStatus full = Allocator(target->pid());
  const nlohmann::json account = Free(*target);
  ASSERT_TRUE(account.is_object());
  const v1::AllocatorStatus half = Allocator(target->pid());
  const auto& total = account["total"];
  const auto live_of = [&](const char* what) {
    return total["allocated"][what].get<double>() - total["freed"][what].get<double>();
  };
  // By its own arithmetic. Some objects are larger than `size`, which makes the error smaller.
  const double tolerance = FiveErrors(live_of("count"), size, interval);
  ASSERT_LT(tolerance, 0.15) << "the check would see nothing";
  EXPECT_NEAR(static_cast<double>(half.live_bytes()), live_of("usable"),
              tolerance * live_of("usable"));
  EXPECT_NEAR(static_cast<double>(half.live_objects()), live_of("count"),
              tolerance * live_of("count"));
  EXPECT_GT(full.live_bytes(), 3 * half.live_bytes() / 2);

  // By jemalloc's, of the same samples: what differs is how it rounds. Bytes it rounds to whole ones,
  // objects to eighths, so that 1 / p may be off by 1/16: a share of p / 16.
  const Estimate first = ReadHeapProfile(dump + ".0");
  const Estimate second = ReadHeapProfile(dump + ".1");
  EXPECT_GT(second.bytes, 0);
  EXPECT_NEAR(static_cast<double>(half.live_bytes()), second.bytes - first.bytes,
              1e-3 * second.bytes);
  EXPECT_NEAR(static_cast<double>(half.live_objects()), second.objects - first.objects,
              (1 - std::exp(-3 * size / interval)) / 16 * second.objects);
  EXPECT_EQ(half.live_note(), "");
  EXPECT_EQ(daemon_->Stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Sampling, KnownLiveHeap,
                         testing::Values(Case{"alloc_jemalloc_static", 12, 700, 60'000},
                                         Case{"alloc_jemalloc_static", 14, 700, 60'000},
                                         Case{"alloc_jemalloc_static", 16, 20'000, 4'000},
                                         Case{"alloc_jemalloc_stripped", 14, 700, 60'000},
                                         Case{"alloc_jemalloc", 14, 700, 60'000},
                                         Case{"alloc_jemalloc_5.2.1", 14, 700, 60'000},
                                         Case{"alloc_jemalloc_5.3.1", 14, 700, 60'000}),
                         [](const auto& test) {
                           return absl::StrReplaceAll(
                               absl::StrCat(test.param.program, "_lg", test.param.lg_sample,
                                            "_size", test.param.size),
                               {{".", "_"}});
                         });

// Objects from before profd are not known, and their end takes nothing from those that are.
TEST_F(LiveHeapTest, WhatIsFromBeforeIsLeftOut) {
  auto target = Start(kStatic, {"n=20000", "size=5000", "free=100"}, "prof:true,lg_prof_sample:13");
  ASSERT_NE(target, nullptr);
  Allocate(*target);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(target->pid()));
  EXPECT_EQ(AwaitCounted(target->pid()).live_bytes(), 0);
  Free(*target);
  const v1::AllocatorStatus after = Allocator(target->pid());
  // 100 MB went. The report is written through stdio, which allocates a buffer.
  EXPECT_LT(after.live_bytes(), 100'000);
  EXPECT_GE(after.live_bytes(), 0);
  EXPECT_GT(after.freed().bytes(), 90'000'000);
}

TEST_F(LiveHeapTest, NothingIsLeftWhenAllIsFreed) {
  auto target = Start(kStatic, {"n=50000", "size=3000", "threads=2", "free=100", "by=main"},
                      "prof:true,lg_prof_sample:13");
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(target->pid()));
  AwaitCounted(target->pid());
  Allocate(*target);
  EXPECT_GT(Allocator(target->pid()).live_bytes(), 100'000'000);
  Free(*target);
  const v1::AllocatorStatus after = Allocator(target->pid());
  EXPECT_LT(after.live_bytes(), 100'000) << "stdio's buffer, for the report";
}

TEST_F(LiveHeapTest, SaysWhatIsMissing) {
  auto plain = Start(kStatic, {"n=10"}, "prof:false");
  ASSERT_NE(plain, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(plain->pid()));
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    return !Allocator(plain->pid()).live_note().empty();
  }));
  v1::AllocatorStatus allocator = Allocator(plain->pid());
  EXPECT_EQ(allocator.live_since_ns(), 0);
  EXPECT_THAT(allocator.live_note(),
              HasSubstr("runs without profiling; start the process with MALLOC_CONF=prof:true"));
  const auto text = Profctl(*daemon_, {"status"});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(text->out, HasSubstr("    live       the live heap is not known"));

  // Started before the variable was set; no symbol leads to what the process itself says.
  auto stripped = Start(kStripped, {"n=10"}, "");
  ASSERT_NE(stripped, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(stripped->pid()));
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    return !Allocator(stripped->pid()).live_note().empty();
  }));
  EXPECT_THAT(Allocator(stripped->pid()).live_note(), HasSubstr("MALLOC_CONF=prof:true"));
}

// What came and went during a pause is not known: counted anew.
TEST_F(LiveHeapTest, CountedAnewAfterAPause) {
  auto target = Start(kStatic, {"n=50000", "size=3000", "free=100"}, "prof:true,lg_prof_sample:13");
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(target->pid()));
  const int64_t since = AwaitCounted(target->pid()).live_since_ns();
  Allocate(*target);
  EXPECT_GT(Allocator(target->pid()).live_bytes(), 50'000'000);
  daemon_->process().Signal(SIGUSR1);
  EXPECT_TRUE(Eventually(seconds(10), [&] { return daemon_->Status()->paused(); }));
  Free(*target);
  daemon_->process().Signal(SIGUSR2);
  EXPECT_TRUE(Eventually(seconds(10), [&] { return !daemon_->Status()->paused(); }));
  const v1::AllocatorStatus again = AwaitCounted(target->pid());
  EXPECT_GT(again.live_since_ns(), since);
  EXPECT_LT(again.live_bytes(), 100'000);
}

TEST_F(LiveHeapTest, DisabledItCountsNothing) {
  auto target = Start(kStatic, {"n=1000", "size=5000"}, "prof:true,lg_prof_sample:12");
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(target->pid(), {"--disable", "heap"}));
  Allocate(*target);
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok());
  EXPECT_THAT(status->allocators(), IsEmpty());
}

}  // namespace
}  // namespace profd::e2e
