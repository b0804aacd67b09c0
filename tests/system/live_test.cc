// The live heap against jemalloc's own profile of the same moment, which has to be read: a scenario
// cannot say it. What programs know of themselves is in tests/scenarios/live-heap*.toml.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/base/clock.h"
#include "nlohmann/json.hpp"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/heap.h"
#include "tests/system/harness/heap_dump.h"

namespace profd::e2e {
namespace {

const std::string kStatic = AllocBinary("alloc_jemalloc_static");

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
    request.mutable_window()->set_since_ns(1'000'000'000);
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
    EXPECT_TRUE(Eventually(kPatience, [&] {
      allocator = Allocator(pid);
      return allocator.live_since_ns() != 0;
    })) << allocator.DebugString();
    return allocator;
  }

  // What is in use, by stack.
  Answer InUse(int pid) {
    v1::FetchRequest request;
    request.add_sample_types("inuse");
    request.mutable_window()->set_since_ns(1'000'000'000);
    request.add_targets(std::to_string(pid));
    const auto answer = daemon_->Fetch(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return {};
    return *answer;
  }

  std::unique_ptr<Daemon> daemon_;
};

// Of n objects of which each is sampled with probability p, the estimate has the standard error
// sqrt((1 - p) / (n p)) of itself.
double StandardError(double objects, double size, double interval) {
  const double sampled = 1 - std::exp(-size / interval);
  return std::sqrt((1 - sampled) / (objects * sampled));
}
// Of a total; passed once in two million runs.
constexpr double kSigmas = 5;
// jemalloc 5.2 counts an object twice if malloc finds the thread's cache empty
// (docs/sampling/memory.md, Live heap). A cache takes 16 objects of 768 bytes at once.
double CountedTwice(const std::string& program) {
  return program == "alloc_jemalloc_5.2.1" ? 1.0 / 16 : 0;
}
// Of a site, of which all programs together have 42: one of them passes it once in 3,000 runs.
constexpr double kSigmasOfSite = 4.5;

struct Case {
  std::string program;
  int lg_sample;
  int size;
  int n;
};

class KnownLiveHeap : public LiveHeapTest, public testing::WithParamInterface<Case> {
 protected:
  static constexpr size_t kTop = 10;

  // By the site in each stack, which has one name; "" for those without one.
  static std::map<std::string, Estimate> BySite(const StackBytes& stacks, const CodeNames& names) {
    std::map<std::string, Estimate> by;
    for (const auto& [stack, estimate] : stacks) {
      std::string site;
      for (const CodeAddress& address : stack) {
        const auto name = names.find(address);
        if (name != names.end() && IsSite(name->second)) site = name->second;
      }
      Estimate& sum = by[site];
      sum.bytes += estimate.bytes;
      sum.error = std::hypot(sum.error, estimate.error);
      sum.objects += estimate.objects;
    }
    return by;
  }
  static bool IsSite(const std::string& function) { return function.starts_with("AllocSite"); }

  // From the sites on, without what has none.
  static StackBytes FromSites(const StackBytes& stacks, const CodeNames& names) {
    StackBytes outside = WithoutAllocator(stacks, [&](const CodeAddress& address) {
      const auto name = names.find(address);
      return name == names.end() || !IsSite(name->second);
    });
    outside.erase(CodeStack());
    return outside;
  }
};

TEST_P(KnownLiveHeap, IsWhatWasNotFreedAndWhatJemallocSays) {
  const auto& [program, lg_sample, size, n] = GetParam();
  if (!IsBuilt(program)) GTEST_SKIP() << "not built";
  const double interval = std::ldexp(1.0, lg_sample);
  const TemporaryDirectory directory;
  const std::string dump = directory.path() + "/heap";
  auto target =
      Start(AllocBinary(program),
            {absl::StrCat("n=", n), absl::StrCat("size=", size), "threads=3", "sites=6", "skew=1",
             "calloc=20", "aligned=10", "realloc=10", "free=50", "by=next", "dump=" + dump},
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
  const Answer in_use = InUse(target->pid());
  const auto& total = account["total"];
  const auto live_of = [&](const char* what) {
    return total["allocated"][what].get<double>() - total["freed"][what].get<double>();
  };
  // By its own arithmetic. Some objects are larger than `size`, which makes the error smaller.
  const double tolerance = kSigmas * StandardError(live_of("count"), size, interval);
  ASSERT_LT(tolerance, 0.15) << "the check would see nothing";
  const double twice = CountedTwice(program);
  const auto expect_near = [twice](double estimate, double truth, double error) {
    EXPECT_NEAR(estimate, truth * (1 + twice / 2), error + truth * twice / 2);
  };
  expect_near(static_cast<double>(half.live_bytes()), live_of("usable"),
              tolerance * live_of("usable"));
  expect_near(static_cast<double>(half.live_objects()), live_of("count"),
              tolerance * live_of("count"));
  EXPECT_GT(full.live_bytes(), 3 * half.live_bytes() / 2);

  // By jemalloc's, of the same samples: what differs is how it rounds. Bytes it rounds to whole
  // ones, objects to eighths, so that 1 / p may be off by 1/16: a share of p / 16.
  const auto first = LiveIn(dump + ".0");
  auto second = LiveIn(dump + ".1");
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  const Estimate from = Sum(*first), to = Sum(*second);
  EXPECT_GT(to.bytes, 0);
  EXPECT_NEAR(static_cast<double>(half.live_bytes()), to.bytes - from.bytes, 1e-3 * to.bytes);
  EXPECT_NEAR(static_cast<double>(half.live_objects()), to.objects - from.objects,
              (1 - std::exp(-3 * size / interval)) / 16 * to.objects);

  // By site, of its own arithmetic. Walks that found the memory map locked have no site, and say
  // so: one that is about to change it may have lost its CPU.
  double raced = 0;
  for (const Sample& sample : in_use.samples) {
    EXPECT_TRUE(in_use.IsComplete(sample) || in_use.IsRaced(sample)) << in_use.Describe(sample);
    if (in_use.IsRaced(sample)) raced += static_cast<double>(sample.value);
  }
  EXPECT_LT(raced, 0.05 * to.bytes);
  StackBytes ours = StacksOf(in_use);
  const std::string with_symbols =
      program == "alloc_jemalloc_stripped" ? kStatic : AllocBinary(program);
  const CodeNames names = NamesIn(with_symbols, program, {&ours, &*second});
  std::map<std::string, Estimate> by = BySite(ours, names);
  EXPECT_LT(by[""].bytes, raced + 1e-3 * to.bytes) << "stdio's buffer, for the report";
  for (const nlohmann::json& site : account["sites"]) {
    const auto left_of = [&](const char* what) {
      return site["allocated"][what].get<double>() - site["freed"][what].get<double>();
    };
    const auto bytes = left_of("usable"), objects = left_of("count");
    const Estimate& estimate = by[site["name"].get<std::string>()];
    const double error = StandardError(objects, size, interval);
    SCOPED_TRACE(site.dump());
    expect_near(estimate.bytes, bytes, kSigmasOfSite * error * bytes + raced);
    expect_near(estimate.objects, objects, kSigmasOfSite * error * objects + raced / size);
    // The one that is told goes by what is seen, and by the sizes that are given.
    EXPECT_NEAR(estimate.error / bytes, error, 0.35 * error);
  }

  // By stack, as jemalloc tells it, which goes by the same samples and rounds them: n are off by
  // one of n.
  for (auto& [stack, estimate] : ours) estimate.error = raced;
  for (auto& [stack, estimate] : *second) estimate.error *= estimate.error / estimate.bytes;
  ExpectSameTop(FromSites(ours, names), FromSites(*second, names), kTop, 1);
  EXPECT_EQ(half.live_note(), "");
  EXPECT_EQ(daemon_->Stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Sampling, KnownLiveHeap,
                         testing::Values(Case{"alloc_jemalloc_static", 12, 700, 200'000},
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

}  // namespace
}  // namespace profd::e2e
