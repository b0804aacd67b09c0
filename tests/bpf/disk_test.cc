// Disk requests, and who made them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tests/bpf/kernel_fixture.h"
#include "tests/support/machine.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kBlock = 4096;
constexpr uint64_t kReads = 50;
// The kernel leaves out a run of a program once in a while, one in a thousand.
constexpr uint64_t kUnseen = 5;

// Reads blocks past the page cache each time that it is told to.
void ReadAsTold(Child& me) {
  std::string path = "/var/tmp/profd-test-XXXXXX";
  const int file = mkstemp(path.data());
  void* block = aligned_alloc(kBlock, kBlock);
  std::fill_n(static_cast<char*>(block), kBlock, 'x');
  if (write(file, block, kBlock) != ssize_t{kBlock} || fsync(file) != 0) _exit(1);
  const int direct = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  unlink(path.c_str());
  while (true) {
    me.Wait();
    for (uint64_t i = 0; i < kReads; ++i) {
      if (pread(direct, block, kBlock, 0) != ssize_t{kBlock}) _exit(1);
    }
    me.Signal();
  }
}

class DiskKernelTest : public KernelTest {
 protected:
  void SetUp() override { REQUIRE_FACT("disk_requests"); }

  void Read(const Child& child) {
    child.Signal();
    child.Wait();
  }
  std::vector<DiskEntry> Entries() {
    auto entries = kernel_->DrainDisk();
    EXPECT_TRUE(entries.ok()) << entries.status();
    return entries.ok() ? *std::move(entries) : std::vector<DiskEntry>();
  }
  // The sum of all reads.
  profd_disk_value Reads(const std::vector<DiskEntry>& entries) {
    profd_disk_value sum{};
    for (const auto& [key, value] : entries) {
      if (PROFD_DISK_OPERATION(key.argument) != PROFD_DISK_READ) continue;
      sum.requests += value.requests;
      sum.bytes += value.bytes;
      sum.queue_ns += value.queue_ns;
      sum.service_ns += value.service_ns;
    }
    return sum;
  }
};

TEST_F(DiskKernelTest, CountsRequestsOfTargetsAndOfNobodyElse) {
  const Child child(ReadAsTold), stranger(ReadAsTold);
  START_OR_SKIP(kDisk);
  Mark(child);
  Read(child);
  EXPECT_THAT(Entries(), IsEmpty()) << "it is off";
  ASSERT_TRUE(kernel_->SetDisk(1).ok());
  Read(stranger);
  Read(child);
  Read(stranger);
  const std::vector<DiskEntry> entries = Entries();
  Poll();
  std::set<uint64_t> threads, devices;
  std::set<StackId> stacks;
  for (const StackTrace& stack : stacks_) stacks.insert(stack.id);
  for (const auto& [key, value] : entries) {
    threads.insert(key.thread_id);
    devices.insert(PROFD_DISK_DEVICE(key.argument));
    if ((key.argument & PROFD_DISK_PEAK) != 0) continue;  // tells of requests in flight
    EXPECT_TRUE(stacks.contains(StackId{key.stack}));
    // Each latency is in its bucket, so their sum is, too.
    const uint64_t total = value.queue_ns + value.service_ns;
    EXPECT_GE(total, value.requests << PROFD_DISK_BUCKET(key.argument));
    EXPECT_LT(total, value.requests << (PROFD_DISK_BUCKET(key.argument) + 1));
  }
  EXPECT_THAT(threads, SizeIs(1));
  EXPECT_THAT(devices, SizeIs(1));
  const profd_disk_value sum = Reads(entries);
  EXPECT_LE(sum.requests, kReads);
  EXPECT_GE(sum.requests + kUnseen, kReads);
  EXPECT_EQ(sum.bytes, sum.requests * kBlock);
  EXPECT_GT(sum.service_ns, 0U);
  for (const StackTrace& stack : stacks_) {
    EXPECT_GT(stack.kernel_frames, 0U);
    EXPECT_GT(stack.frames.size(), stack.kernel_frames);
  }
  const profd_disk_cost cost = kernel_->DiskCost();
  EXPECT_LE(cost.requests, kReads);
  EXPECT_EQ(cost.walks, cost.requests);
  EXPECT_GT(cost.ns + cost.done_ns, 0U);
  EXPECT_LE(Loss(PROFD_LOSS_DISK_LOST), kUnseen);
}

TEST_F(DiskKernelTest, EpochsCountEveryRequestOnce) {
  const Child child(ReadAsTold);
  START_OR_SKIP(kDisk);
  Mark(child);
  ASSERT_TRUE(kernel_->SetDisk(1).ok());
  uint64_t counted = 0;
  child.Signal();
  for (int i = 0; i < 50; ++i) counted += Reads(Entries()).requests;
  child.Wait();
  for (int i = 0; i < 2; ++i) counted += Reads(Entries()).requests;
  EXPECT_LE(counted, kReads);
  EXPECT_GE(counted + kUnseen, kReads);
  const uint64_t requests = kernel_->DiskCost().requests;
  ASSERT_TRUE(kernel_->SetDisk(0).ok());
  EXPECT_FALSE(kernel_->disk_on());
  Read(child);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Entries(), IsEmpty());
  EXPECT_EQ(kernel_->DiskCost().requests, requests);
}

TEST_F(DiskKernelTest, CountsStayExactWithoutStacks) {
  const Child child(ReadAsTold);
  START_OR_SKIP(kDisk);
  Mark(child);
  ASSERT_TRUE(kernel_->SetDisk(UINT32_MAX).ok());
  Read(child);
  const std::vector<DiskEntry> entries = Entries();
  const profd_disk_value sum = Reads(entries);
  EXPECT_LE(sum.requests, kReads);
  EXPECT_GE(sum.requests + kUnseen, kReads);
  EXPECT_EQ(sum.bytes, sum.requests * kBlock);
  EXPECT_EQ(kernel_->DiskCost().walks, 0U);
  for (const auto& [key, value] : entries) EXPECT_EQ(key.stack, 0U);
}

}  // namespace
}  // namespace profd
