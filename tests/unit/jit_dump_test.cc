#include "daemon/symbolize/jit_dump.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/jit_dump.h"

namespace profd::symbolize {
namespace {

using test::JitDumpWriter;
using ::testing::ElementsAre;
using ::testing::SizeIs;

absl::StatusOr<PerfMapNames> Find(const std::string& bytes, const std::vector<uint64_t>& addresses,
                                  const JitDumpLimits& limits = {}) {
  const UniqueFd fd(memfd_create("jit_dump", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return FindInJitDump(fd.get(), addresses, limits);
}

TEST(JitDumpTest, NamesWhatWasLoaded) {
  const JitDumpWriter dump = JitDumpWriter()
                                 .Load(0x1000, "fib", std::string(16, '\x90'), 1)
                                 .Other(2, "lines")
                                 .Load(0x1010, "main", "\xc3", 2);
  const auto found = Find(dump.bytes(), {0xfff, 0x1000, 0x100f, 0x1010, 0x1011});
  EXPECT_THAT(found->names, ElementsAre("", "fib", "fib", "main", ""));
  EXPECT_EQ(found->malformed, 0);
  EXPECT_FALSE(found->cut);
}

TEST(JitDumpTest, TheLastCodeAtAnAddressCounts) {
  const JitDumpWriter dump =
      JitDumpWriter().Load(0x1000, "old", "1234", 1).Load(0x1000, "new", "1234", 2);
  EXPECT_THAT(Find(dump.bytes(), {0x1000})->names, ElementsAre("new"));
}

TEST(JitDumpTest, CodeKeepsItsNameWhereItMoves) {
  const JitDumpWriter dump = JitDumpWriter()
                                 .Load(0x1000, "moved", "1234", 8)
                                 .Load(0x2000, "there before", "1234", 9)
                                 .Move(0x1000, 0x2000, 4, 8)
                                 .Move(0x1000, 0x3000, 4, 77);
  // The last one is of code that was never loaded.
  EXPECT_THAT(Find(dump.bytes(), {0x2003, 0x3000})->names, ElementsAre("moved", ""));
}

TEST(JitDumpTest, ARecordThatIsStillWrittenIsIgnored) {
  const std::string first = JitDumpWriter().Load(0x1000, "fib", "1234", 1).bytes();
  const std::string both =
      JitDumpWriter().Load(0x1000, "fib", "1234", 1).Load(0x1000, "new", "1234", 2).bytes();
  for (size_t size = first.size(); size < both.size(); ++size) {
    EXPECT_THAT(Find(both.substr(0, size), {0x1000})->names, ElementsAre("fib")) << size;
  }
  EXPECT_THAT(Find(both, {0x1000})->names, ElementsAre("new"));
}

TEST(JitDumpTest, DamageIsCounted) {
  // Records that are shorter than their kind, and one that would never end.
  std::string bytes =
      JitDumpWriter().Other(0, "short").Other(1, "short").Load(0x1000, "fib", "1234", 1).bytes();
  EXPECT_THAT(Find(bytes, {0x1000})->names, ElementsAre("fib"));
  EXPECT_EQ(Find(bytes, {0x1000})->malformed, 2);
  bytes += std::string(32, '\0');
  EXPECT_EQ(Find(bytes, {0x1000})->malformed, 3);
  EXPECT_TRUE(absl::IsInvalidArgument(Find("JiTD", {0x1000}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Find(std::string(64, 'x'), {0x1000}).status()));
}

TEST(JitDumpTest, LimitsHold) {
  JitDumpWriter dump;
  for (uint64_t i = 0; i < 100; ++i) dump.Load(0x1000, "a" + std::to_string(i), "1234", i);
  EXPECT_THAT(Find(dump.bytes(), {0x1000}, {.max_records = 10})->names, ElementsAre("a9"));
  EXPECT_TRUE(Find(dump.bytes(), {0x1000}, {.max_records = 10})->cut);
  EXPECT_TRUE(Find(dump.bytes(), {0x1000}, {.max_matches = 10})->cut);
  EXPECT_FALSE(Find(dump.bytes(), {0x1000}, {.max_records = 100})->cut);
  const JitDumpWriter longest = JitDumpWriter().Load(0x1000, std::string(9999, 'x'), "1234", 1);
  EXPECT_THAT(Find(longest.bytes(), {0x1000})->names, ElementsAre(SizeIs(4096)));
}

TEST(JitDumpTest, IsKnownByItsName) {
  EXPECT_EQ(PidOfJitDump("/tmp/.debug/jit/java-jit-1/jit-12.dump"), 12);
  EXPECT_EQ(PidOfJitDump("jit-7.dump"), 7);
  for (const char* path : {"", "/tmp/jit-.dump", "/tmp/jit-7x.dump", "/tmp/jit-7.dump (deleted)",
                           "/tmp/jit--7.dump", "/tmp/xjit-7.dump", "/tmp/jit-99999999999.dump"}) {
    EXPECT_EQ(PidOfJitDump(path), 0) << path;
  }
}

}  // namespace
}  // namespace profd::symbolize
