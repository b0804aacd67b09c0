// File syncs, and who made them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/kernel/load.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/support/machine.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kBlock = 4096;

// A file with one block; it has no name any more.
int MakeFile() {
  std::string path = "/var/tmp/profd-test-XXXXXX";
  const int file = mkstemp(path.data());
  unlink(path.c_str());
  const char block[kBlock] = {};
  if (write(file, block, kBlock) != ssize_t{kBlock} || fsync(file) != 0) _exit(1);
  return file;
}

void Write(int file, char value) {
  if (pwrite(file, &value, 1, 0) != 1) _exit(1);
}

struct Counted {
  uint64_t calls = 0, joined = 0, failed = 0;
};

class SyncKernelTest : public KernelTest {
 protected:
  void SetUp() override {
    if (!HasSyncCalls()) REQUIRE_FACT("disk_requests");
  }

  // Does `body` in a target, with syncs counted, and returns what they counted by call and file.
  std::map<std::pair<uint32_t, uint64_t>, Counted> CountSyncs(const std::function<void()>& body) {
    const Child child([&](Child& me) {
      me.Wait();
      body();
      me.Signal();
      me.Wait();
    });
    Start(kDisk);
    if (IsSkipped() || HasFatalFailure()) return {};
    Mark(child);
    EXPECT_TRUE(kernel_->SetDisk(1).ok());
    child.Signal();
    child.Wait();
    const auto entries = kernel_->DrainDisk();
    EXPECT_TRUE(entries.ok()) << entries.status();
    Poll();
    std::set<StackId> known;
    for (const StackTrace& stack : stacks_) known.insert(stack.id);
    std::map<std::pair<uint32_t, uint64_t>, Counted> found;
    for (const auto& [key, value] : *entries) {
      const uint64_t argument = key.argument;
      if ((argument & PROFD_OBJECT_BIT) == 0) continue;
      EXPECT_TRUE(known.contains(StackId{key.stack}));
      const uint64_t file = PROFD_SYNC_FILE(argument);
      EXPECT_TRUE(known.contains(StackId{file}) ||
                  (file == PROFD_OBJECT_BIT && Loss(PROFD_LOSS_OBJECT) != 0));
      EXPECT_GE(value.service_ns, value.requests << PROFD_SYNC_BUCKET(argument));
      EXPECT_LT(value.service_ns, value.requests << (PROFD_SYNC_BUCKET(argument) + 1));
      Counted& counted = found[{PROFD_SYNC_CALL(argument), PROFD_SYNC_FILE(argument)}];
      counted.calls += value.requests;
      if ((argument & PROFD_SYNC_JOINED) != 0) counted.joined += value.requests;
      if ((argument & PROFD_SYNC_FAILED) != 0) counted.failed += value.requests;
    }
    return found;
  }
};

TEST_F(SyncKernelTest, CountsEachCallByFile) {
  const auto found = CountSyncs([] {
    const int a = MakeFile(), b = MakeFile(), c = MakeFile();
    auto* map = static_cast<char*>(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, c, 0));
    for (int i = 0; i < 20; ++i) {
      Write(a, 'a');
      if (fsync(a) != 0) _exit(1);
      if (i % 2 == 0 && fdatasync(b) != 0) _exit(1);
      map[0] = 'c';
      if (msync(map, kBlock, i % 4 == 0 ? MS_SYNC : MS_ASYNC) != 0) _exit(1);
    }
  });
  if (IsSkipped()) return;
  std::map<uint32_t, std::multiset<uint64_t>> calls;
  for (const auto& [place, counted] : found) {
    calls[place.first].insert(counted.calls);
    EXPECT_EQ(counted.joined + counted.failed, 0U);
  }
  // Each file was synced once as it was made.
  using Calls = std::multiset<uint64_t>;
  EXPECT_EQ(calls, (std::map<uint32_t, Calls>{{PROFD_SYNC_FSYNC, {21, 1, 1}},
                                              {PROFD_SYNC_FDATASYNC, {10}},
                                              {PROFD_SYNC_MSYNC, {5}}}));
  EXPECT_EQ(kernel_->DiskCost().walks, kernel_->DiskCost().requests);
  // The calls are complete all the same: the kernel sometimes does not run the program at a
  // request's completion (docs/losses.md), on a busy machine several times in a row.
  EXPECT_LT(Loss(PROFD_LOSS_DISK_LOST), kernel_->DiskCost().requests);
}

// The file of an msync is found through the memory map, which somebody may have locked as the call
// begins.
TEST_F(SyncKernelTest, CallsWhileTheMapChangesAreCounted) {
  constexpr int kCalls = 60;
  const auto found = CountSyncs([] {
    // Changing the protection of many small pages takes long, under the lock.
    constexpr size_t kBytes = size_t{64} << 20;
    void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (madvise(pages, kBytes, MADV_NOHUGEPAGE) != 0) _exit(1);
    memset(pages, 1, kBytes);
    std::atomic<bool> stop = false;
    std::thread changes([&] {
      while (!stop) {
        mprotect(pages, kBytes, PROT_READ);
        mprotect(pages, kBytes, PROT_READ | PROT_WRITE);
      }
    });
    const int file = MakeFile();
    auto* map =
        static_cast<char*>(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    for (int i = 0; i < kCalls; ++i) {
      map[0] = static_cast<char>(i);
      if (msync(map, kBlock, MS_SYNC) != 0) _exit(1);
    }
    stop = true;
    changes.join();
  });
  if (IsSkipped()) return;
  uint64_t calls = 0;
  for (const auto& [place, counted] : found) {
    if (place.first == PROFD_SYNC_MSYNC) calls += counted.calls;
  }
  EXPECT_EQ(calls, uint64_t{kCalls});
}

TEST_F(SyncKernelTest, CallsThatOverlapAreJoined) {
  REQUIRE_FACT("disk_requests");
  constexpr int kThreads = 4, kCalls = 50;
  const auto found = CountSyncs([] {
    const int file = MakeFile();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([file] {
        for (int i = 0; i < kCalls; ++i) {
          Write(file, 'x');
          if (fdatasync(file) != 0) _exit(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  if (IsSkipped()) return;
  Counted shared;
  for (const auto& [place, counted] : found) {
    if (place.first == PROFD_SYNC_FDATASYNC) shared = counted;
  }
  EXPECT_EQ(shared.calls, kThreads * kCalls);
  EXPECT_GT(shared.joined, 0U);
  EXPECT_LT(shared.joined, shared.calls);
}

// Where programs may not run at system calls, profd sees what ext4 syncs, and only that.
TEST_F(SyncKernelTest, RangesFileSystemsAndFailuresWhereCallsAreSeen) {
  const auto found = CountSyncs([] {
    const int file = MakeFile();
    for (int i = 0; i < 3; ++i) {
      if (sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE) != 0) _exit(1);
    }
    if (syncfs(file) != 0) _exit(1);
    int ends[2];
    if (pipe(ends) != 0 || fsync(ends[0]) == 0 || fsync(-1) == 0) _exit(1);
  });
  if (IsSkipped()) return;
  std::map<uint32_t, Counted> calls;
  for (const auto& [place, counted] : found) {
    Counted& sum = calls[place.first];
    sum.calls += counted.calls;
    sum.failed += counted.failed;
  }
  const bool seen = HasSyncCalls();
  EXPECT_THAT(calls, SizeIs(seen ? 3 : 1));
  EXPECT_EQ(calls[PROFD_SYNC_RANGE].calls, seen ? 3U : 0U);
  EXPECT_EQ(calls[PROFD_SYNC_FS].calls, seen ? 1U : 0U);
  EXPECT_EQ(calls[PROFD_SYNC_FSYNC].calls, seen ? 2U : 1U) << "of the file, and of the pipe";
  EXPECT_EQ(calls[PROFD_SYNC_FSYNC].failed, seen ? 1U : 0U);
}

}  // namespace
}  // namespace profd
