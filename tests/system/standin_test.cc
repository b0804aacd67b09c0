// The stand-in for op-reth: a Rust program with tokio and a static, prefixed jemalloc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "daemon/symbolize/symbolizer.h"
#include "nlohmann/json.hpp"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/heap.h"

namespace profd::e2e {
namespace {

using testing::HasSubstr;

constexpr char kStandin[] = "standin";
constexpr char kStripped[] = "standin_stripped";

// The functions of the stand-in that frames lie in, by the frames' offsets: `strip` moves no code,
// so the file with symbols names those of the one without.
std::map<uint64_t, std::string> NamesOf(const Answer& answer) {
  std::vector<uint64_t> offsets, inside;
  for (const auto& [id, frame] : answer.frames) {
    if (!absl::StartsWith(frame.module(), kStandin) || frame.offset() == 0) continue;
    offsets.push_back(frame.offset());
    inside.push_back(frame.offset() - 1);  // where a call returns to may be the next function
  }
  const auto file = OpenReadOnly(AllocBinary(kStandin));
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return {};
  const std::vector<Symbol> symbols = SymbolizeModule(file->get(), {kStandin, ""}, inside);
  std::map<uint64_t, std::string> names;
  for (size_t i = 0; i < symbols.size(); ++i) names[offsets[i]] = symbols[i].function;
  return names;
}

// Bytes by the site in each stack, "" for those without one.
std::map<std::string, int64_t> BytesBySite(const Answer& answer) {
  const std::map<uint64_t, std::string> names = NamesOf(answer);
  std::map<std::string, int64_t> bytes;
  for (const v1::Sample& sample : answer.samples) {
    std::string site;
    for (const v1::Frame& frame : answer.FramesOf(sample)) {
      const auto name = names.find(frame.offset());
      if (!absl::StartsWith(frame.module(), kStandin) || name == names.end()) continue;
      const size_t at = name->second.find("::site_");
      if (at != std::string::npos) site = name->second.substr(at + 2);
    }
    bytes[site] += sample.bytes();
  }
  return bytes;
}

class StandinTest : public HeapTest {
 protected:
  void SetUp() override {
    HeapTest::SetUp();
    if (!IsSkipped() && !IsBuilt(kStandin)) GTEST_SKIP() << WhyNoStandin();
  }
};

class StandinAllocates : public StandinTest,
                         public testing::WithParamInterface<std::pair<std::string, std::string>> {};

TEST_P(StandinAllocates, BytesBySiteAndExactTotals) {
  const auto& [binary, found_by] = GetParam();
  // A GiB and more, from threads of a pool and from a worker of tokio.
  auto target = Allocating::Start(AllocBinary(binary),
                                  {"alloc", "--threads", "3", "--tokio", "1", "--count", "350000",
                                   "--size", "700", "--sites", "3", "--free-share", "50"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
  const v1::AllocatorStatus allocator = AwaitWatched(target->pid());
  EXPECT_EQ(allocator.module(), AllocBinary(binary));
  EXPECT_EQ(allocator.found_by(), found_by);
  EXPECT_THAT(allocator.version(), HasSubstr("5.3"));
  EXPECT_EQ(allocator.note(), "");
  const nlohmann::json account = target->Run();
  ASSERT_TRUE(account.is_object());
  ASSERT_GT(UsableBytes(account, "allocated"), 1 << 30);

  for (const auto& [kind, name] : {std::pair{v1::PROFILE_KIND_ALLOC, "allocated"},
                                   std::pair{v1::PROFILE_KIND_FREE, "freed"}}) {
    SCOPED_TRACE(name);
    const Answer answer = Fetch(target->pid(), kind);
    ExpectAddsUp(answer);
    ExpectExactByThread(answer, account, name);
    const v1::HeapTotal& heap = answer.trailer.heap();
    EXPECT_EQ(heap.gaps(), 0U) << heap.DebugString();
    EXPECT_GE(Coverage(heap), 0.999);
    EXPECT_GE(answer.trailer.complete_share(), 0.99);
  }

  const Answer answer = Fetch(target->pid(), v1::PROFILE_KIND_ALLOC);
  const std::map<std::string, int64_t> by = BytesBySite(answer);
  const Told told = ToldIn(answer);
  EXPECT_GE(told.whole, 0.95);
  if (binary == kStandin) {
    EXPECT_GE(told.named, 0.95);
  }
  for (const nlohmann::json& site : account["sites"]) {
    const auto usable = site["allocated"]["usable"].get<double>();
    const auto found = by.find(site["name"].get<std::string>());
    ASSERT_NE(found, by.end()) << site.dump();
    EXPECT_NEAR(static_cast<double>(found->second), usable, 0.03 * usable) << site.dump();
  }
  // The daemon itself names what has symbols.
  const bool named = std::any_of(answer.frames.begin(), answer.frames.end(), [](const auto& frame) {
    return absl::StrContains(frame.second.function(), "::site_");
  });
  EXPECT_EQ(named, binary == kStandin);

  // Freed at once by who allocated it, or by another thread.
  const Answer freed = Fetch(target->pid(), v1::PROFILE_KIND_FREE);
  std::map<std::string, int64_t> by_thread;
  for (const auto& [id, thread] : freed.threads) by_thread[thread.name()] += thread.heap().bytes();
  EXPECT_NEAR(static_cast<double>(by_thread["persistence"]),
              0.5 * 0.5 * UsableBytes(account, "allocated"),
              0.1 * UsableBytes(account, "allocated"));

  EXPECT_EQ(daemon_->Stop(), 0);
  EXPECT_EQ(target->End(), 0);
}

INSTANTIATE_TEST_SUITE_P(Rust, StandinAllocates,
                         testing::Values(std::pair<std::string, std::string>(kStandin, "symbol"),
                                         std::pair<std::string, std::string>(kStripped, "shape")),
                         [](const auto& test) { return test.param.first; });

// The ways to wait that are found in a node, whole and by the frame that says what is waited for.
TEST_F(StandinTest, IdleThreadsAreSeenWhole) {
  auto target = Allocating::Start(AllocBinary(kStandin), {"idle"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
  const auto begin = daemon_->AwaitTarget(target->pid());
  ASSERT_TRUE(begin.has_value());
  std::this_thread::sleep_for(seconds(1));  // of what is to be seen
  const auto answer = daemon_->FetchProcess(target->pid(), *begin);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GE(answer->trailer.complete_share(), 0.99);

  // By thread: a function that each of its stacks has.
  const std::map<std::string, std::string> expected = {
      {"standin", "block_on"},
      {"tokio-rt", "tokio::runtime::scheduler::multi_thread"},
      {"storage-00", "wait_until_cold"},
      {"storage-01", "wait_until_cold"},
      {"engine", "crossbeam_channel"},
      {"persistence", "std::sync::mpmc"},
      {"deferred-trie", "parking_lot::condvar::Condvar::wait"},
      {"payload-service", "std::thread::"},
      {"payload-builder", "parking_lot::raw_mutex::RawMutex::lock_slow"},
  };
  std::map<std::string, int> threads;
  for (const auto& [id, thread] : answer->threads) {
    const auto wanted = expected.find(thread.name());
    if (wanted == expected.end()) continue;
    SCOPED_TRACE(thread.name());
    ++threads[thread.name()];
    const std::vector<v1::Sample> samples = answer->SamplesOf(thread);
    EXPECT_FALSE(samples.empty());
    for (const v1::Sample& sample : samples) {
      if (sample.stack() == 0) continue;
      EXPECT_TRUE(answer->IsComplete(sample) || answer->IsRaced(sample));
      EXPECT_THAT(answer->Describe(sample), HasSubstr(wanted->second));
    }
  }
  for (const auto& [name, function] : expected) {
    EXPECT_EQ(threads[name], name == "tokio-rt" ? 2 : 1) << name;
  }
  EXPECT_EQ(daemon_->Stop(), 0);
  EXPECT_EQ(target->End(), 0);
}

}  // namespace
}  // namespace profd::e2e
