#include <limits>
#include <optional>

#include "client/answer/kind.h"
#include "client/answer/profile.h"
#include "client/io/output.h"
#include "client/render/cost.h"
#include "client/render/heap.h"
#include "client/text/text.h"
#include "daemon/service/grouping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profctl {
namespace {

TEST(TextTest, CleanNameKeepsTextAndDropsCommands) {
  EXPECT_EQ(CleanName("reth::main"), "reth::main");
  EXPECT_EQ(CleanName("naïve µ 日本 😀"), "naïve µ 日本 😀");
  EXPECT_EQ(CleanName("a\x1b[31mb\r\n\tc\x7f"), "a?[31mb???c?");
  EXPECT_EQ(CleanName("\xe2\x80\xae"), "?");  // right-to-left override
  EXPECT_EQ(CleanName("\xc2\x9b"), "?");      // C1 control
  EXPECT_EQ(CleanName("\xef\xbf\xbf"), "?");  // not a character, not XML
  EXPECT_EQ(CleanName("a\xff"), "a\xef\xbf\xbd");
  EXPECT_EQ(CleanName("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");                  // overlong
  EXPECT_EQ(CleanName("\xed\xa0\x80").find('\xed'), std::string::npos);          // surrogate
  EXPECT_EQ(CleanName(std::string("\xe2\x82", 2)), "\xef\xbf\xbd\xef\xbf\xbd");  // cut off
  EXPECT_EQ(CleanName(std::string("a\0b", 3)), "a?b");
}

TEST(TextTest, WidthCountsCodePoints) {
  EXPECT_EQ(DisplayWidth("± 1"), 3u);
  EXPECT_EQ(PadLeft("±", 3), "  ±");
  EXPECT_EQ(PadRight("±", 3), "±  ");
  EXPECT_EQ(Shorten("abcdefghijkl", 9), "abc...jkl");
  EXPECT_EQ(Shorten("short", 9), "short");
  EXPECT_EQ(ClipEnd("±±±±±±", 4), "±±..");
  EXPECT_EQ(Wrap("aa bb cc", 5, ""), "aa bb\ncc\n");
  EXPECT_EQ(Wrap("", 5, "  "), "");
  EXPECT_EQ(Wrap("in 60.0 s, 3 MiB/s, 5 sites", 8, ""), "in\n60.0 s,\n3 MiB/s,\n5 sites\n");
  EXPECT_EQ(WrapAfter("± ", "aa bb cc", 7), "± aa bb\n  cc\n");
  EXPECT_EQ(WrapAfter("a ", "", 7), "a \n");
}

TEST(TextTest, SharesCountsBytes) {
  EXPECT_EQ(FormatShare(1, 8), "12.5%");
  EXPECT_EQ(FormatShare(0, 8), "0.0%");
  EXPECT_EQ(FormatShare(1, 1e9), "<0.1%");
  EXPECT_EQ(FormatShare(1, 0), "-");
  EXPECT_EQ(FormatFineShare(0, 8), "0%");
  EXPECT_EQ(FormatFineShare(1, 1e9), "<0.001%");
  EXPECT_EQ(FormatFineShare(1, 1e5), "0.001%");
  EXPECT_EQ(FormatFineShare(0.00031, 1), "0.031%");
  EXPECT_EQ(FormatFineShare(0.00099951, 1), "0.10%");
  EXPECT_EQ(FormatFineShare(0.0123, 1), "1.23%");
  EXPECT_EQ(FormatFineShare(0.09996, 1), "10.0%");
  EXPECT_EQ(FormatFineShare(1, 0), "-");
  EXPECT_EQ(FormatFineShare(std::numeric_limits<double>::quiet_NaN(), 1), "-");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatBytes(1000), "1000 B");
  EXPECT_EQ(FormatBytes(13'000'000), "12.4 MiB");
}

TEST(TextTest, BytesHaveThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(10'235), "10.0 KiB");
  EXPECT_EQ(FormatBytes((uint64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{1331} << 20), "1.30 GiB");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 50), "5120 TiB");
}

TEST(KindTest, NamesAndUnits) {
  for (const SampleTypeInfo& info : AllSampleTypes()) {
    EXPECT_EQ(FindSampleType(info.name), &info);
    EXPECT_EQ(&profd::DescribeSampleType(info.kind), &info);
    const bool disk_time = info.IsOfDisk() && info.kind != profd::Kind::kDiskBytes;
    const bool switches = info.kind == profd::Kind::kSwitch;
    EXPECT_EQ(info.unit == Unit::kNanoseconds, (info.HasReasons() && !switches) ||
                                                   info.kind == profd::Kind::kCpu || disk_time ||
                                                   info.IsOfSyncs());
    EXPECT_EQ(info.unit == Unit::kCount, switches);
  }
  EXPECT_EQ(FindSampleType("heap"), nullptr);
  EXPECT_EQ(FindSampleType(""), nullptr);
  EXPECT_EQ(FormatValue(1'500'000, Unit::kNanoseconds), "1.50 ms");
  EXPECT_EQ(FormatValue(1'500'000, Unit::kBytes), "1.43 MiB");
  EXPECT_EQ(FormatValue(-1'500'000, Unit::kNanoseconds), "-1.50 ms");
  EXPECT_EQ(FormatValue(-1'500'000, Unit::kBytes), "0 B");
}

TEST(HeapTest, CoverageIsOfTheBytesOfAllEvents) {
  profd::v1::HeapTotal heap;
  EXPECT_EQ(HeapCoverage(heap), 1);
  EXPECT_EQ(FormatCoverage(heap), "-");
  EXPECT_FALSE(IsBadlyCovered(heap));
  heap.set_events(3);
  heap.set_weight_bytes(300);
  EXPECT_EQ(FormatCoverage(heap), "100.0%");
  heap.set_gaps(1);
  heap.set_unseen_bytes(100);
  EXPECT_EQ(HeapCoverage(heap), 0.75);
  EXPECT_TRUE(IsBadlyCovered(heap));
  EXPECT_EQ(DescribeUnseen(heap), "no probe saw 1 event with 100 B (25.0% of the bytes)");
  heap.set_late_bytes(6);
  EXPECT_EQ(DescribeLate(heap), "") << "2% of 300 B";
  heap.set_late_bytes(90);
  const std::string late =
      " of the bytes were seen in the allocator's slow path, shortly after the event; their stacks "
      "are approximate";
  EXPECT_EQ(DescribeLate(heap), "30.0%" + late);
  heap.set_events(0);
  heap.set_weight_bytes(0);
  EXPECT_EQ(FormatCoverage(heap), "0.0%");
  // A status comes as it was sent.
  for (const int64_t bytes : {INT64_MIN, INT64_MAX, int64_t{-1}}) {
    heap.set_weight_bytes(bytes);
    for (const int64_t unseen : {INT64_MIN, INT64_MAX, int64_t{-1}}) {
      heap.set_unseen_bytes(unseen);
      EXPECT_GE(HeapCoverage(heap), 0) << bytes << " " << unseen;
      EXPECT_LE(HeapCoverage(heap), 1) << bytes << " " << unseen;
      heap.set_late_bytes(unseen);
      EXPECT_THAT(DescribeLate(heap), testing::AnyOf("", "100.0%" + late));
    }
  }
}

TEST(HeapTest, ByteRates) {
  EXPECT_EQ(FormatByteRate(60 << 20, 60'000'000'000), "1.00 MiB/s");
  EXPECT_EQ(FormatByteRate(0, 60'000'000'000), "0 B/s");
  EXPECT_EQ(FormatByteRate(-1, 60'000'000'000), "0 B/s");
  EXPECT_EQ(FormatByteRate(1, 0), "-");
  EXPECT_EQ(FormatByteRate(INT64_MAX, 1), "8185452 TiB/s");
}

TEST(CostTextTest, IsToldByKindAndBySecond) {
  profd::v1::Cost cost;
  cost.set_daemon_cpu_ns(600'000'000);
  cost.set_tick_cpu_ns(400'000'000);
  cost.set_drain_cpu_ns(90'000'000);
  cost.set_rules_cpu_ns(12'000'000);
  cost.set_answers_cpu_ns(30'000'000);
  cost.set_in_path_ns(64'000'000);
  cost.set_switches(160'000);
  EXPECT_EQ(DescribeDaemonCost(cost, 60'000'000'000),
            "1.00% of one CPU (10.0 ms/s): ticks 0.67%, drains 0.15%, unwind rules 0.020%, "
            "queries 0.050%, rest 0.11%");
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kOn),
            "0.11% of one CPU (1.07 ms/s): 160,000 switches, 400 ns on average");
  cost.set_tick_cpu_ns(700'000'000);
  EXPECT_EQ(DescribeDaemonCost(cost, 60'000'000'000),
            "1.00% of one CPU (10.0 ms/s): ticks 1.17%, drains 0.15%, unwind rules 0.020%, "
            "queries 0.050%, rest 0%");
}

TEST(CostTextTest, SwitchesHaveNoMeanWithoutTheLayer) {
  profd::v1::Cost cost;
  cost.set_in_path_ns(64'000'000);
  cost.set_switches(160'000);
  const std::string switches = "0.11% of one CPU (1.07 ms/s): 160,000 switches";
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kPartlyOn),
            switches + ", 400 ns on average, including those while the switch layer was off");
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kOff),
            switches + " with the switch layer off");
  cost.set_in_path_ns(0);
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kPartlyOn),
            "0% of one CPU (0 ns/s): 160,000 switches with the switch layer off");
}

TEST(CostTextTest, BurstsAreAPartOfThePath) {
  profd::v1::Cost cost;
  cost.set_in_path_ns(64'000'000);
  cost.set_switches(160'000);
  cost.set_burst_in_path_ns(16'000'000);
  cost.set_burst_calls(8'000);
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kOn),
            "0.11% of one CPU (1.07 ms/s): 160,000 switches, 300 ns on average; bursts of malloc "
            "0.027% (8,000 calls, 2.00 us on average)");
}

TEST(CostTextTest, AllocationsAreAPartOfThePath) {
  profd::v1::Cost cost;
  cost.set_in_path_ns(64'000'000);
  cost.set_switches(160'000);
  cost.set_heap_in_path_ns(16'000'000);
  cost.set_heap_events(20'000);
  // The switches are divided by what is theirs.
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kOn),
            "0.11% of one CPU (1.07 ms/s): 160,000 switches, 300 ns on average; allocations "
            "0.027% (20,000 events, 800 ns on average)");
  cost.set_switches(0);
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kOn),
            "0.11% of one CPU (1.07 ms/s): 0 switches; allocations 0.027% (20,000 events, 800 ns "
            "on average)");
  cost.set_switches(1);
  cost.set_heap_in_path_ns(65'000'000);
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kOn),
            "0.11% of one CPU (1.07 ms/s): 1 switch, 0 ns on average; allocations 0.11% (20,000 "
            "events, 3.25 us on average)");
  cost.set_heap_in_path_ns(INT64_MIN);
  cost.set_in_path_ns(INT64_MAX);
  EXPECT_EQ(DescribePathCost(cost, 1, SwitchLayer::kOn),
            "922337203685477580800.0% of one CPU (104167 d/s): 1 switch, 104167 d on average; "
            "allocations -922337203685477580800.000% (20,000 events, -5.34 d on average)");
}

TEST(CostTextTest, MappingCallsAreAPartOfThePath) {
  profd::v1::Cost cost;
  cost.set_in_path_ns(64'000'000);
  cost.set_switches(160'000);
  cost.set_mapping_in_path_ns(16'000'000);
  cost.set_mapping_calls(4'000);
  EXPECT_EQ(DescribePathCost(cost, 60'000'000'000, SwitchLayer::kOn),
            "0.11% of one CPU (1.07 ms/s): 160,000 switches, 300 ns on average; mapping calls "
            "0.027% (4,000 calls, 4.00 us on average)");
}

TEST(CostTextTest, NothingToDivideBy) {
  profd::v1::Cost cost;
  EXPECT_EQ(DescribePathCost(cost, 0, SwitchLayer::kOn), "- of one CPU (-): 0 switches");
  EXPECT_EQ(FormatPerSecond(INT64_MAX, 1).back(), 's');
  EXPECT_EQ(FormatPerSecond(1, -1), "-");
  EXPECT_EQ(FormatRate(160'000, 60'000'000'000), "2,667");
  EXPECT_EQ(FormatRate(UINT64_MAX, 1), "9,000,000,000,000,000,000");
  EXPECT_EQ(FormatRate(1, 0), "-");
}

TEST(TextTest, ThreadGroups) {
  EXPECT_EQ(profd::ThreadGroup("storage-03"), "storage");
  EXPECT_EQ(profd::ThreadGroup("tokio-rt-worker-12"), "tokio-rt-worker");
  EXPECT_EQ(profd::ThreadGroup("rocksdb:low"), "rocksdb:low");
  EXPECT_EQ(profd::ThreadGroup("rocksdb:low0"), "rocksdb:low");
  EXPECT_EQ(profd::ThreadGroup("pool 7"), "pool");
  EXPECT_EQ(profd::ThreadGroup("42"), "42");
  EXPECT_EQ(profd::ThreadGroup("-1"), "-1");
  EXPECT_EQ(profd::ThreadGroup(""), "");
}

TEST(TextTest, FileNames) {
  EXPECT_EQ(FileNamePart("postgres"), "postgres");
  EXPECT_EQ(FileNamePart("../../etc/passwd"), "_._.._etc_passwd");
  EXPECT_EQ(FileNamePart("-rf"), "_rf");
  EXPECT_EQ(FileNamePart(".hidden"), "_hidden");
  EXPECT_EQ(FileNamePart("a b\nc"), "a_b_c");
  EXPECT_EQ(FileNamePart(""), "process");
  EXPECT_EQ(FileNamePart(std::string(200, 'x')).size(), 40u);
}

}  // namespace
}  // namespace profctl
