// Programs that tell of their objects at USDT probes where a scenario cannot say it: probes and
// semaphores are looked for in the process, and profd is killed. Bytes are in
// tests/scenarios/told*.toml.
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
    return StartProgram(AllocBinary(binary));
  }
  std::unique_ptr<Subprocess> StartProgram(const std::string& program) {
    auto process = Subprocess::Start({.argv = {program, std::to_string(kObjects),
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
    EXPECT_TRUE(Eventually(kPatience, [&] {
      found = Find(pid, "otel_memory");
      return found.watched() && found.live_since_ns() != 0;
    })) << found.DebugString();
    return found;
  }
  // As of now: a fetch drains.
  v1::AllocatorStatus Now(int pid) {
    Fetch(pid, "inuse");
    return Find(pid, "otel_memory");
  }
};

// The kernel counts the semaphore up in the target alone, and down again whoever ends first.
TEST_F(ToldTest, KilledItLeavesNothing) {
  // A name of its own: other tests' daemons put their probes into every "told".
  const TemporaryDirectory directory;
  const std::string program = absl::StrCat(directory.path(), "/told_own");
  std::filesystem::copy_file(AllocBinary("told"), program);
  auto target = StartProgram(program);
  auto other = StartProgram(program);
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
    EXPECT_EQ(daemon_->process().Wait(kLongestStop), signal == SIGTERM ? 0 : 128 + signal);
    // Links are closed when nothing of the process is left.
    EXPECT_TRUE(Eventually(kPatience, [&] { return Semaphore(*target) == 0; }));
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
  EXPECT_TRUE(Eventually(kPatience, [&] { return daemon_->Status()->paused(); }));
  EXPECT_TRUE(Eventually(kPatience, [&] { return Semaphore(*target) == 0; }));
  daemon_->process().Signal(SIGUSR2);
  EXPECT_TRUE(Eventually(kPatience, [&] { return !daemon_->Status()->paused(); }));
  EXPECT_TRUE(Eventually(kPatience, [&] { return Semaphore(*target) == 4; }));
  v1::AllocatorStatus again = AwaitTold(target->pid());
  EXPECT_GT(again.live_since_ns(), since);
  EXPECT_EQ(again.live_bytes(), 0);
  // The end of what came before is told, and is none of ours.
  Do(*target, "f");
  again = Now(target->pid());
  EXPECT_EQ(again.live_bytes(), 0);
  EXPECT_EQ(again.freed().bytes(), 0);
}

}  // namespace
}  // namespace profd::e2e
