// Programs that tell of the objects that they sample, at USDT probes: who allocated, who freed and
// what is live is what they told, to the byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/fd.h"
#include "nlohmann/json.hpp"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/heap.h"

namespace profd::e2e {
namespace {

using Stream = Subprocess::Stream;
using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;

constexpr int kObjects = 4'000, kSize = 1'000, kEvery = 8;

// Bytes of a process's code that are not as its program's file has them: where probes stand.
int PatchedBytes(int pid) {
  const std::string process = absl::StrCat("/proc/", pid);
  const auto memory = OpenReadOnly(process + "/mem");
  const auto file = OpenReadOnly(process + "/exe");
  const auto maps = ReadWholeFile(process + "/maps");
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(process + "/exe", error);
  struct stat program = {};
  if (!memory.ok() || !file.ok() || !maps.ok() || fstat(file->get(), &program) != 0) {
    ADD_FAILURE() << "cannot look into " << process;
    return -1;
  }
  int patched = 0, mappings = 0;
  const std::vector<std::string> lines = absl::StrSplit(*maps, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    // begin-end permissions offset device inode path
    unsigned long begin = 0, end = 0, offset = 0;
    char permissions[5] = {};
    if (sscanf(line.c_str(), "%lx-%lx %4s %lx", &begin, &end, permissions, &offset) != 4 ||
        permissions[2] != 'x' || !line.ends_with(" " + path)) {
      continue;
    }
    ++mappings;
    const auto in_file = static_cast<uint64_t>(program.st_size) - offset;
    const uint64_t size = std::min<uint64_t>(end - begin, in_file);
    std::string expected(size, '\0'), actual(size, '\0');
    EXPECT_TRUE(ReadFileAt(file->get(), offset, expected.data(), size).ok());
    EXPECT_TRUE(ReadFileAt(memory->get(), begin, actual.data(), size).ok());
    for (uint64_t i = 0; i < size; ++i) patched += actual[i] != expected[i] ? 1 : 0;
  }
  EXPECT_GT(mappings, 0);
  return patched;
}

class ToldTest : public HeapTest {
 protected:
  std::unique_ptr<Subprocess> Start(const std::string& binary) {
    auto process = Subprocess::Start({.argv = {AllocBinary(binary), std::to_string(kObjects),
                                               std::to_string(kSize), std::to_string(kEvery)}});
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return nullptr;
    EXPECT_TRUE((*process)->LineWith(Stream::kStdout, "ready", seconds(30)).has_value());
    return *std::move(process);
  }
  // What the program says it told, in bytes.
  std::map<std::string, int64_t> Do(Subprocess& target, const std::string& command) {
    target.Write(command + "\n");
    const auto line = target.NextLine(Stream::kStdout, seconds(60));
    EXPECT_TRUE(line.has_value());
    if (!line) return {};
    return nlohmann::json::parse(*line).get<std::map<std::string, int64_t>>();
  }
  int64_t Semaphore(Subprocess& target) { return Do(target, "s")["semaphore"]; }

  v1::AllocatorStatus Find(int pid, const std::string& allocator) {
    const auto status = daemon_->Status();
    EXPECT_TRUE(status.ok()) << status.status();
    if (!status.ok()) return {};
    for (const v1::AllocatorStatus& found : status->allocators()) {
      if (found.allocator() == allocator &&
          std::count(found.pids().begin(), found.pids().end(), pid) != 0) {
        return found;
      }
    }
    return {};
  }
  v1::AllocatorStatus AwaitTold(int pid) {
    v1::AllocatorStatus found;
    EXPECT_TRUE(Eventually(seconds(20), [&] {
      found = Find(pid, "otel_memory");
      return found.watched() && found.live_since_ns() != 0;
    })) << found.DebugString();
    return found;
  }
  // As of now: a fetch drains.
  v1::AllocatorStatus Now(int pid) {
    Fetch(pid, v1::PROFILE_KIND_INUSE);
    return Find(pid, "otel_memory");
  }
};

class KnownObjects : public ToldTest, public testing::WithParamInterface<const char*> {};

TEST_P(KnownObjects, AreAllocatedFreedAndLiveToTheByte) {
  auto target = Start(GetParam());
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  // Nobody is told of these, and it is no matter when they go.
  Do(*target, "a");
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  v1::AllocatorStatus state = AwaitTold(pid);
  EXPECT_EQ(state.found_by(), "USDT");
  EXPECT_THAT(state.module(), HasSubstr(GetParam()));
  EXPECT_THAT(state.note(), HasSubstr("no object was told of yet"));
  EXPECT_EQ(state.live_bytes(), 0);

  std::map<std::string, int64_t> came = Do(*target, "a");
  for (const auto& [site, bytes] : Do(*target, "a")) came[site] += bytes;
  EXPECT_EQ(came["SiteSmall"], 2 * kObjects * kSize) << "every object is stood for";
  EXPECT_EQ(came["SiteLarge"], 2 * kObjects / 4 * 20 * kSize);
  const int64_t all = came["SiteSmall"] + came["SiteLarge"];
  state = Now(pid);
  EXPECT_EQ(state.allocated().bytes(), all);
  EXPECT_EQ(state.freed().bytes(), 0);
  EXPECT_EQ(state.live_bytes(), all);
  EXPECT_EQ(state.live_objects(), 2 * kObjects + 2 * kObjects / 4);
  EXPECT_EQ(state.note(), "");
  EXPECT_EQ(state.live_note(), "");
  // Of 1,000 bytes one in 8 is sampled where it is one byte in 7,489; of 20,000 in 149,777.
  EXPECT_THAT(state.sample_bytes(), AnyOf(Eq(8192U), Eq(131072U)));

  const std::map<std::string, int64_t> went = Do(*target, "f");
  EXPECT_EQ(went.at("FreeSmall"), kObjects * kSize / 2);
  EXPECT_EQ(went.at("FreeLarge"), kObjects / 4 * 20 * kSize);
  const Answer allocated = Fetch(pid, v1::PROFILE_KIND_ALLOC);
  ExpectAddsUp(allocated);
  EXPECT_EQ(BytesBy(allocated, "Site"), came);
  const Answer freed = Fetch(pid, v1::PROFILE_KIND_FREE);
  ExpectAddsUp(freed);
  EXPECT_EQ(BytesBy(freed, "Free"), went);
  const std::map<std::string, int64_t> live = {
      {"SiteSmall", came["SiteSmall"] - went.at("FreeSmall")},
      {"SiteLarge", came["SiteLarge"] - went.at("FreeLarge")}};
  EXPECT_EQ(BytesBy(Fetch(pid, v1::PROFILE_KIND_INUSE), "Site"), live);
  for (const Answer* answer : {&allocated, &freed}) {
    EXPECT_EQ(answer->trailer.complete_share(), 1);
    for (const v1::Loss& loss : answer->trailer.losses()) {
      EXPECT_FALSE(loss.cause().starts_with("live_")) << loss.DebugString();
    }
  }

  // The ones from before, too: nothing is taken from those that are known.
  const std::map<std::string, int64_t> rest = Do(*target, "f");
  Do(*target, "f");
  state = Now(pid);
  EXPECT_EQ(state.freed().bytes(), went.at("FreeSmall") + went.at("FreeLarge") +
                                       rest.at("FreeSmall") + rest.at("FreeLarge"));
  EXPECT_EQ(state.live_bytes(), all - state.freed().bytes());
  const auto text = Profctl(*daemon_, {"status"});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(text->out, HasSubstr("otel_memory in "));
  EXPECT_THAT(text->out, HasSubstr("yes, point to watch found by USDT"));
  EXPECT_EQ(daemon_->Stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Semaphore, KnownObjects, testing::Values("told", "told_always"),
                         [](const auto& test) { return std::string(test.param); });

// The kernel counts the semaphore up in the target alone, and down again whoever ends first.
TEST_F(ToldTest, KilledItLeavesNothing) {
  auto target = Start("told");
  auto other = Start("told");
  ASSERT_NE(target, nullptr);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(Semaphore(*target), 0);
  EXPECT_EQ(PatchedBytes(target->pid()), 0);
  for (const int signal : {SIGKILL, SIGTERM}) {
    ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
    AwaitTold(target->pid());
    EXPECT_EQ(Semaphore(*target), 4) << "one for each place";
    EXPECT_EQ(PatchedBytes(target->pid()), 4);
    EXPECT_EQ(Semaphore(*other), 0);
    EXPECT_EQ(PatchedBytes(other->pid()), 0);
    EXPECT_EQ(Do(*other, "a")["SiteSmall"], 0);
    EXPECT_GT(Do(*target, "a")["SiteSmall"], 0);
    daemon_->process().Signal(signal);
    EXPECT_EQ(daemon_->process().Wait(seconds(20)), signal == SIGTERM ? 0 : 128 + signal);
    // Links are closed when nothing of the process is left.
    EXPECT_TRUE(Eventually(seconds(10), [&] { return Semaphore(*target) == 0; }));
    EXPECT_EQ(PatchedBytes(target->pid()), 0);
    EXPECT_EQ(Do(*target, "a")["SiteSmall"], 0) << "it runs on, and samples nothing";
  }
}

// What came and went during a pause is not known: counted anew, and meanwhile nobody watches.
TEST_F(ToldTest, CountedAnewAfterAPause) {
  auto target = Start("told");
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
  const int64_t since = AwaitTold(target->pid()).live_since_ns();
  Do(*target, "a");
  EXPECT_GT(Now(target->pid()).live_bytes(), 0);
  daemon_->process().Signal(SIGUSR1);
  EXPECT_TRUE(Eventually(seconds(10), [&] { return daemon_->Status()->paused(); }));
  EXPECT_TRUE(Eventually(seconds(10), [&] { return Semaphore(*target) == 0; }));
  daemon_->process().Signal(SIGUSR2);
  EXPECT_TRUE(Eventually(seconds(10), [&] { return !daemon_->Status()->paused(); }));
  EXPECT_TRUE(Eventually(seconds(10), [&] { return Semaphore(*target) == 4; }));
  v1::AllocatorStatus again = AwaitTold(target->pid());
  EXPECT_GT(again.live_since_ns(), since);
  EXPECT_EQ(again.live_bytes(), 0);
  // The end of what came before is told, and is none of ours.
  Do(*target, "f");
  again = Now(target->pid());
  EXPECT_EQ(again.live_bytes(), 0);
  EXPECT_EQ(again.freed().bytes(), 0);
}

// A process that has both is asked for what it tells alone, from the first object on.
TEST_F(ToldTest, NothingIsCountedTwice) {
  if (!IsBuilt("told_jemalloc")) GTEST_SKIP() << "not built";
  auto target = Start("told_jemalloc");
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  AwaitTold(pid);
  EXPECT_TRUE(Eventually(seconds(20), [&] { return Find(pid, "jemalloc").watched(); }));
  Do(*target, "a");
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    Fetch(pid, v1::PROFILE_KIND_ALLOC);
    return !Find(pid, "jemalloc").watched() && PatchedBytes(pid) == 4;
  }));
  EXPECT_THAT(Find(pid, "jemalloc").note(), HasSubstr("otel_memory"));

  const int64_t before = Fetch(pid, v1::PROFILE_KIND_ALLOC).trailer.heap().bytes();
  std::map<std::string, int64_t> came = Do(*target, "a");
  EXPECT_EQ(Fetch(pid, v1::PROFILE_KIND_ALLOC).trailer.heap().bytes() - before,
            came["SiteSmall"] + came["SiteLarge"]);
  std::map<std::string, int64_t> went = Do(*target, "f");
  EXPECT_EQ(BytesBy(Fetch(pid, v1::PROFILE_KIND_INUSE), "Site")["SiteLarge"], came["SiteLarge"]);
  EXPECT_EQ(Find(pid, "otel_memory").freed().bytes(), went["FreeSmall"] + went["FreeLarge"]);
}

}  // namespace
}  // namespace profd::e2e
