// Disk requests: what they cost, what becomes of their counts, and how answers tell of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/render/disk.h"
#include "daemon/collect/cost_table.h"
#include "daemon/profile/estimator.h"
#include "daemon/profile/identity.h"
#include "daemon/service/disk_use.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/object_text.h"
#include "daemon/service/sync_use.h"
#include "daemon/source/disk.h"
#include "daemon/source/disk_knob.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint32_t kDevice = 254U << PROFD_DISK_MINOR_BITS | 1;

DiskEntry Entry(uint64_t stack, uint32_t operation, uint32_t bucket,
                const profd_disk_value& value) {
  return {
      {.thread_id = 7, .stack = stack, .argument = PROFD_DISK_ARGUMENT(kDevice, operation, bucket)},
      value};
}

TEST(DiskKnobTest, CostIsRequestsTimesTheirPrice) {
  DiskKnob knob;
  EXPECT_EQ(knob.payer(), Payer::kTarget);
  EXPECT_EQ(knob.CostAt(0), 0) << "no request yet";
  const profd_disk_cost cost = {
      .requests = 1'000, .ns = 300'000, .walks = 1'000, .walk_ns = 4'000'000, .done_ns = 200'000};
  knob.Learn({.seconds = 2, .cost = cost});
  // 500 requests a second, of 0.5 us and a stack of 4 us.
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 500 * 4.5e-6);
  EXPECT_EQ(DiskKnob::InPathNs(cost), 4'500'000U);
  for (int level = 1; level < knob.levels(); level++) {
    EXPECT_LT(knob.CostAt(level), knob.CostAt(level - 1));
    EXPECT_THAT(knob.GivenUpAt(level), Not(IsEmpty()));
  }
  EXPECT_THAT(knob.GivenUpAt(0), IsEmpty());
  EXPECT_EQ(knob.OneInAt(0), 1U);
  EXPECT_EQ(knob.OneInAt(knob.levels() - 1), 0U);
  EXPECT_EQ(knob.sampled_levels(), knob.levels() - 1);
  knob.Learn({.seconds = 0, .cost = cost});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 500 * 4.5e-6) << "a pause is no load";
  // Switched off nobody knows the load: it is tried again some time.
  knob.Learn({.seconds = 60, .on = false, .cost = cost});
  EXPECT_DOUBLE_EQ(knob.CostAt(0), 250 * 4.5e-6);
}

class DiskSourceTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  DiskSource source_{SourceContext{.kernel = &kernel_, .clock = &clock_}};
};

TEST_F(DiskSourceTest, CountsAreSamplesOfTimeQueueAndBytes) {
  ASSERT_TRUE(source_.Attach().ok());
  EXPECT_FALSE(kernel_.disk_on()) << "before there are targets";
  ASSERT_TRUE(source_.Apply().ok());
  EXPECT_EQ(kernel_.disk_one_in, 1U);
  kernel_.disk_entries = {
      Entry(9, PROFD_DISK_READ, 14,
            {.requests = 2, .bytes = 8'192, .queue_ns = 10, .service_ns = 40'000}),
      Entry(9, PROFD_DISK_READ, 15,
            {.requests = 1, .bytes = 4'096, .queue_ns = 5, .service_ns = 50'000}),
      Entry(9, PROFD_DISK_WRITE, 14,
            {.requests = 1, .bytes = 512, .queue_ns = 0, .service_ns = 20'000})};
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_TRUE(delta.disk_on);
  std::map<Kind, std::map<uint64_t, std::pair<int64_t, int64_t>>> found;
  for (const Sample& sample : delta.samples) {
    EXPECT_EQ(sample.key.thread, ThreadId{7});
    EXPECT_EQ(sample.key.stack, StackId{9});
    found[sample.key.kind][sample.key.argument] = {sample.weight, sample.ticks};
  }
  using Amounts = std::map<uint64_t, std::pair<int64_t, int64_t>>;
  const auto read = [](uint32_t bucket) {
    return PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_READ, bucket);
  };
  const auto write = [](uint32_t bucket) {
    return PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_WRITE, bucket);
  };
  EXPECT_EQ(found[Kind::kDisk],
            (Amounts{{read(14), {40'010, 2}}, {read(15), {50'005, 1}}, {write(14), {20'000, 1}}}));
  EXPECT_EQ(found[Kind::kDiskQueue], (Amounts{{read(0), {15, 3}}, {write(0), {0, 1}}}));
  EXPECT_EQ(found[Kind::kDiskBytes], (Amounts{{read(0), {12'288, 3}}, {write(0), {512, 1}}}));
  EXPECT_TRUE(source_.Status()->on);
  EXPECT_EQ(source_.Status()->note, "");
}

TEST_F(DiskSourceTest, DetachedItCostsNothingAndSaysSo) {
  ASSERT_TRUE(source_.Attach().ok());
  ASSERT_TRUE(source_.Apply().ok());
  source_.Detach();
  EXPECT_FALSE(kernel_.disk_on());
  EXPECT_EQ(source_.Status()->note, kPausedNote);
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  EXPECT_FALSE(delta.disk_on);
  ASSERT_TRUE(source_.Apply().ok());
  EXPECT_TRUE(kernel_.disk_on());
}

TEST_F(DiskSourceTest, FailureIsSaidUntilItIsOver) {
  kernel_.set_disk = {.times = 2, .status = absl::PermissionDeniedError("needs CAP_PERFMON")};
  EXPECT_TRUE(absl::IsPermissionDenied(source_.Attach()));
  EXPECT_FALSE(source_.Apply().ok());
  EXPECT_FALSE(source_.Status()->on);
  EXPECT_THAT(source_.Status()->note, HasSubstr("CAP_PERFMON"));
  ASSERT_TRUE(source_.Apply().ok());
  EXPECT_TRUE(source_.Status()->on);
}

TEST_F(DiskSourceTest, CostIsInThePath) {
  kernel_.disk_cost = {
      .requests = 10, .ns = 2'000, .walks = 10, .walk_ns = 30'000, .done_ns = 3'000};
  std::vector<CostRow> rows;
  source_.Costs(rows);
  const CollectorCost cost = SumCosts(rows);
  EXPECT_EQ(cost.disk_in_path_ns, 35'000);
  EXPECT_EQ(cost.in_path_ns, 35'000);
  EXPECT_EQ(cost.disk_requests, 10);
}

Sample DiskSample(Kind kind, uint64_t stack, uint64_t argument, int64_t weight, int64_t requests) {
  return {
      .key = {.thread = ThreadId{7}, .stack = StackId{stack}, .argument = argument, .kind = kind},
      .weight = weight,
      .ticks = requests};
}

uint64_t SyncArgument(uint64_t file, uint32_t call, uint32_t bucket) {
  return PROFD_SYNC_ARGUMENT(PROFD_OBJECT_BIT | file << 16, call, bucket);
}

TEST_F(DiskSourceTest, SyncsAndPeaksAreTheirOwn) {
  const uint64_t sync = SyncArgument(5, PROFD_SYNC_FDATASYNC, 20);
  const uint64_t peak = uint64_t{kDevice} << 32 | PROFD_DISK_PEAK | 32;
  kernel_.disk_entries = {{{.thread_id = 7, .stack = 9, .argument = sync},
                           {.requests = 3, .bytes = 0, .queue_ns = 0, .service_ns = 4'000'000}},
                          {{.thread_id = 7, .stack = 0, .argument = peak}, {}}};
  ProfileDelta delta;
  ASSERT_TRUE(source_.Drain(delta).ok());
  ASSERT_THAT(delta.samples, SizeIs(2));
  for (const Sample& sample : delta.samples) {
    const bool is_sync = sample.key.kind == Kind::kSync;
    EXPECT_EQ(sample.key.argument, is_sync ? sync : peak);
    EXPECT_EQ(sample.key.kind, is_sync ? Kind::kSync : Kind::kDiskQueue);
    EXPECT_EQ(sample.weight, is_sync ? 4'000'000 : 0);
    EXPECT_EQ(sample.ticks, is_sync ? 3 : 0);
  }
  EXPECT_EQ(ObjectOf({.argument = sync, .kind = Kind::kSync}), StackId{PROFD_OBJECT_BIT | 5 << 16});
}

TEST_F(DiskSourceTest, StatusSaysWhichSyncsAreNotSeen) {
  ASSERT_TRUE(source_.Apply().ok());
  kernel_.syncs_note = "this kernel shows file syncs of ext4 only";
  EXPECT_TRUE(source_.Status()->on);
  EXPECT_EQ(source_.Status()->note, kernel_.syncs_note);
  source_.Detach();
  EXPECT_EQ(source_.Status()->note, kPausedNote);
}

TEST(SumRequestsTest, SyncsAreSummedByFileAndCallAndPeaksLeftOut) {
  const uint64_t sync = SyncArgument(5, PROFD_SYNC_FSYNC, 20);
  const std::vector<Sample> samples = {
      DiskSample(Kind::kSync, 1, sync, 20, 1),
      DiskSample(Kind::kSync, 1, SyncArgument(5, PROFD_SYNC_FSYNC, 21) | PROFD_SYNC_JOINED, 40, 2),
      DiskSample(Kind::kSync, 1, sync | PROFD_SYNC_FAILED, 1, 1),
      DiskSample(Kind::kSync, 1, SyncArgument(5, PROFD_SYNC_MSYNC, 20), 7, 1),
      DiskSample(Kind::kSync, 1, SyncArgument(6, PROFD_SYNC_FSYNC, 20), 8, 1),
      DiskSample(Kind::kDiskQueue, 0, uint64_t{kDevice} << 32 | PROFD_DISK_PEAK | 4, 0, 0)};
  const std::vector<EstimatedSample> sums = SumRequests(samples);
  ASSERT_THAT(sums, SizeIs(3));
  EXPECT_EQ(sums[0].key.argument, SyncArgument(5, PROFD_SYNC_FSYNC, 0));
  EXPECT_EQ(sums[0].amount, 61);
  EXPECT_EQ(sums[0].ticks, 4);
  EXPECT_EQ(sums[1].amount, 7);
  EXPECT_EQ(sums[2].amount, 8);
}

class SyncUseTest : public ::testing::Test {
 protected:
  // A description, as the kernel programs send it.
  static std::shared_ptr<const StackTrace> File(uint64_t id, std::string_view names) {
    profd_object object{};
    object.kind = PROFD_OBJECT_FILE;
    auto trace = std::make_shared<StackTrace>();
    trace->id = StackId{PROFD_OBJECT_BIT | id << 16};
    trace->frames.resize(PROFD_OBJECT_WORDS + 8);
    std::memcpy(trace->frames.data(), &object, sizeof(object));
    std::memcpy(trace->frames.data() + PROFD_OBJECT_WORDS, names.data(), names.size());
    return trace;
  }

  v1::Profile Fill() {
    NamedStacks stacks(profile_.stacks);
    WaitObjects objects(profile_.stacks);
    for (const MergedThread& thread : profile_.threads) {
      for (const Sample& sample : thread.samples) {
        stacks.Add(sample.key.stack, ProcessIdOf(*thread.info));
      }
    }
    v1::Profile answer;
    FillSyncs(profile_, stacks, objects, &answer);
    return answer;
  }

  MergedProfile profile_;
};

TEST_F(SyncUseTest, ByFileAndCallTheLongestFirst) {
  profile_.stacks = {File(5, std::string_view("wal\0data\0", 9))};
  profile_.threads.resize(2);
  const uint64_t sync = SyncArgument(5, PROFD_SYNC_FDATASYNC, 20);
  profile_.threads[0].samples = {
      DiskSample(Kind::kSync, 1, sync, 3'000'000, 2),
      DiskSample(Kind::kSync, 2, sync | PROFD_SYNC_JOINED, 5'000'000, 4),
      DiskSample(Kind::kSync, 1, SyncArgument(5, PROFD_SYNC_MSYNC, 10), 1'500, 1),
      DiskSample(Kind::kDisk, 1, PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_READ, 9), 900, 1)};
  Sample failed = DiskSample(
      Kind::kSync, 1, SyncArgument(5, PROFD_SYNC_FDATASYNC, 23) | PROFD_SYNC_FAILED, 9'000'000, 1);
  failed.key.thread = ThreadId{8};
  profile_.threads[1].samples = {failed};
  const v1::Profile answer = Fill();
  ASSERT_THAT(answer.syncs(), SizeIs(2));
  const v1::FileSync& data = answer.syncs(0);
  EXPECT_EQ(data.file(), "/data/wal");
  EXPECT_EQ(data.call(), "fdatasync");
  EXPECT_EQ(data.calls(), 7U);
  EXPECT_EQ(data.joined(), 4U);
  EXPECT_EQ(data.failed(), 1U);
  EXPECT_EQ(data.threads(), 2U);
  EXPECT_EQ(data.total_ns(), 17'000'000);
  EXPECT_EQ(data.p50_ns(), 1 << 21);
  EXPECT_EQ(data.max_ns(), 1 << 24);
  EXPECT_EQ(data.stack(), 1U) << "12 of 17 ms";
  EXPECT_EQ(data.stack_ns(), 12'000'000);
  EXPECT_EQ(answer.syncs(1).call(), "msync");
  EXPECT_EQ(answer.syncs_left_out(), 0U);
}

TEST_F(SyncUseTest, AHundredAreToldAndTheRestCounted) {
  std::vector<Sample> samples;
  for (uint64_t file = 1; file <= 102; ++file) {
    samples.push_back(DiskSample(Kind::kSync, 1, SyncArgument(file, PROFD_SYNC_FSYNC, 20),
                                 static_cast<int64_t>(1'000 + file), 2));
  }
  profile_.threads.resize(1);
  profile_.threads[0].samples = MergedSamples(samples);
  const v1::Profile answer = Fill();
  ASSERT_THAT(answer.syncs(), SizeIs(100));
  EXPECT_EQ(answer.syncs(0).total_ns(), 1'102);
  EXPECT_EQ(answer.syncs(0).file(), "[unknown object]");
  EXPECT_EQ(answer.syncs_left_out(), 4U);
  EXPECT_EQ(answer.syncs_left_out_ns(), 1'001 + 1'002);
}

TEST_F(SyncUseTest, DamagedNumbersDoNoHarm) {
  profile_.threads.resize(1);
  profile_.threads[0].samples = {DiskSample(Kind::kSync, 1, UINT64_MAX, INT64_MIN, INT64_MAX),
                                 DiskSample(Kind::kSync, 1, 0, INT64_MAX, -5)};
  const v1::Profile answer = Fill();
  EXPECT_THAT(answer.syncs(), SizeIs(2));
}

TEST(SumRequestsTest, LatenciesAreLeftOutAndNothingIsEstimated) {
  const auto read = [](uint32_t bucket) {
    return PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_READ, bucket);
  };
  const uint64_t write = PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_WRITE, 3);
  const std::vector<Sample> samples = {
      DiskSample(Kind::kDisk, 1, read(4), 20, 1), DiskSample(Kind::kDisk, 1, read(5), 40, 1),
      DiskSample(Kind::kDisk, 2, read(5), 50, 1), DiskSample(Kind::kDisk, 1, write, 9, 1)};
  const std::vector<EstimatedSample> sums = SumRequests(samples);
  ASSERT_THAT(sums, SizeIs(3));
  EXPECT_EQ(sums[0].key.argument, read(0));
  EXPECT_EQ(sums[0].amount, 60);
  EXPECT_EQ(sums[0].ticks, 2);
  EXPECT_EQ(sums[1].amount, 50);
  EXPECT_EQ(sums[2].amount, 9);
  for (const EstimatedSample& sum : sums) EXPECT_EQ(sum.error, 0);
}

class DiskNamesTest : public ::testing::Test {
 protected:
  DiskNamesTest() {
    std::filesystem::create_directories(root_);
    std::filesystem::create_symlink("../../devices/virtio3/block/vda/vda1", root_ + "/254:1");
  }
  ~DiskNamesTest() override { std::filesystem::remove_all(root_); }

  const std::string root_ = ::testing::TempDir() + "/disk-names";
  DiskNames names_{root_};
};

TEST_F(DiskNamesTest, NameOfTheLinkOrTheNumber) {
  EXPECT_EQ(names_.NameOf(kDevice), "vda1");
  EXPECT_EQ(names_.NameOf(8U << PROFD_DISK_MINOR_BITS | 300'000), "8:300000");
  EXPECT_EQ(names_.Describe(PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_FLUSH, 9)), "vda1 flush");
  EXPECT_EQ(names_.Describe(PROFD_DISK_ARGUMENT(kDevice, 200, 9)), "vda1 other");
}

TEST_F(DiskNamesTest, RequestsAreSummedByDeviceAndOperation) {
  const auto read = [](uint32_t bucket) {
    return PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_READ, bucket);
  };
  const uint64_t flush = PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_FLUSH, 20);
  MergedProfile profile;
  profile.threads.resize(2);
  profile.threads[0].samples = {DiskSample(Kind::kDisk, 1, read(10), 99 * 1'500, 99),
                                DiskSample(Kind::kDiskQueue, 1, read(0), 500, 99),
                                DiskSample(Kind::kDiskBytes, 1, read(0), 99 * 4'096, 99),
                                DiskSample(Kind::kCpu, 1, 0, 77, 1)};
  profile.threads[1].samples = {DiskSample(Kind::kDisk, 2, read(13), 9'000, 1),
                                DiskSample(Kind::kDiskBytes, 2, read(0), 4'096, 1),
                                DiskSample(Kind::kDisk, 2, flush, 2'000'000, 1)};
  v1::Profile answer;
  FillDisks(profile, names_, &answer);
  const auto& disks = answer.disks();
  ASSERT_THAT(disks, SizeIs(2));
  EXPECT_EQ(disks[0].operation(), "flush") << "the longest time first";
  EXPECT_EQ(disks[0].p50_ns(), 1 << 21);
  const v1::DiskUse& reads = disks[1];
  EXPECT_EQ(reads.device(), "vda1");
  EXPECT_EQ(reads.major(), 254U);
  EXPECT_EQ(reads.minor(), 1U);
  EXPECT_EQ(reads.operation(), "read");
  EXPECT_EQ(reads.requests(), 100U);
  EXPECT_EQ(reads.bytes(), 100 * 4'096);
  EXPECT_EQ(reads.queue_ns(), 500);
  EXPECT_EQ(reads.service_ns(), 99 * 1'500 + 9'000 - 500);
  EXPECT_THAT(reads.latencies(), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 1));
  EXPECT_EQ(reads.p50_ns(), 2'048);
  EXPECT_EQ(reads.p99_ns(), 2'048);
  EXPECT_EQ(reads.max_ns(), 16'384);
}

TEST_F(DiskNamesTest, SequentialOnesAreSharesOfTheirOperation) {
  const uint64_t read = PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_READ, 10);
  const uint64_t next = read | PROFD_DISK_SEQUENTIAL;
  MergedProfile profile;
  profile.threads.resize(1);
  profile.threads[0].samples = {DiskSample(Kind::kDisk, 1, read, 3'000, 2),
                                DiskSample(Kind::kDisk, 1, next, 9'000, 6),
                                DiskSample(Kind::kDiskBytes, 1, read, 8'192, 2),
                                DiskSample(Kind::kDiskBytes, 1, next, 600'000, 6)};
  v1::Profile answer;
  FillDisks(profile, names_, &answer);
  ASSERT_THAT(answer.disks(), SizeIs(1));
  const v1::DiskUse& reads = answer.disks(0);
  EXPECT_EQ(reads.requests(), 8U);
  EXPECT_EQ(reads.sequential_requests(), 6U);
  EXPECT_EQ(reads.bytes(), 608'192);
  EXPECT_EQ(reads.sequential_bytes(), 600'000);
}

TEST_F(DiskNamesTest, InFlightIsServiceTimeByTimeAndTheHighestPeak) {
  const auto peak = [](uint64_t most) { return uint64_t{kDevice} << 32 | PROFD_DISK_PEAK | most; };
  MergedProfile profile;
  profile.disk_ns = 1'000;
  profile.threads.resize(2);
  profile.threads[0].samples = {
      DiskSample(Kind::kDisk, 1, PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_READ, 9), 900, 1),
      DiskSample(Kind::kDiskQueue, 1, PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_READ, 0), 100, 1),
      DiskSample(Kind::kDiskQueue, 0, peak(3), 0, 0)};
  profile.threads[1].samples = {
      DiskSample(Kind::kDisk, 1, PROFD_DISK_ARGUMENT(kDevice, PROFD_DISK_WRITE, 9), 700, 1),
      DiskSample(Kind::kDiskQueue, 0, peak(300), 0, 0)};
  v1::Profile answer;
  FillDisks(profile, names_, &answer);
  EXPECT_THAT(answer.disks(), SizeIs(2)) << "a peak is no request";
  ASSERT_THAT(answer.disk_flights(), SizeIs(1));
  EXPECT_EQ(answer.disk_flights(0).device(), "vda1");
  EXPECT_DOUBLE_EQ(answer.disk_flights(0).mean(), 1.5);
  EXPECT_EQ(answer.disk_flights(0).most(), 300U);
}

TEST_F(DiskNamesTest, DamagedNumbersDoNoHarm) {
  MergedProfile profile;
  profile.threads.resize(1);
  const uint64_t no_peak = ~uint64_t{PROFD_DISK_PEAK};
  profile.threads[0].samples = {DiskSample(Kind::kDisk, 1, no_peak, INT64_MIN, INT64_MAX),
                                DiskSample(Kind::kDiskQueue, 1, no_peak, INT64_MAX, -5)};
  v1::Profile answer;
  FillDisks(profile, names_, &answer);
  const auto& disks = answer.disks();
  ASSERT_THAT(disks, SizeIs(1));
  EXPECT_EQ(disks[0].operation(), "other");
  EXPECT_GT(disks[0].max_ns(), 0);
}

TEST(DiskTableTest, TellsEachDeviceAndOperation) {
  auto message = std::make_shared<v1::Profile>();
  v1::DiskUse* disk = message->add_disks();
  disk->set_device("vda1");
  disk->set_operation("read");
  disk->set_requests(4);
  disk->set_bytes(16'384);
  disk->set_queue_ns(8'000);
  disk->set_service_ns(400'000);
  disk->set_p99_ns(131'072);
  profctl::Profile profile;
  profile.message = message;
  std::string text;
  disk->set_sequential_requests(3);
  v1::DiskFlight* flight = message->add_disk_flights();
  flight->set_device("vda1");
  flight->set_mean(1.25);
  flight->set_most(32);
  profctl::AppendDisks(profile, false, text);
  for (const char* part : {"vda1", "read", "16.0 KiB", "2.00 us", "100 us", "131 us", "75.0%",
                           "vda1: 1.25 requests in flight on average, 32 at most"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  message->clear_disks();
  text.clear();
  profctl::AppendDisks(profile, false, text);
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace profd
