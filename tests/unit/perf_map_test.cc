#include "daemon/symbolize/perf_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profd::symbolize {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

UniqueFd PerfMapOf(const std::string& text) {
  UniqueFd fd(memfd_create("perf_map", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return fd;
}

PerfMapNames FindIn(const std::string& text, const std::vector<uint64_t>& addresses,
                    const PerfMapLimits& limits = {}) {
  const UniqueFd fd = PerfMapOf(text);
  const auto found = FindInPerfMap(fd.get(), addresses, limits);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : PerfMapNames();
}

TEST(PerfMapTest, NamesWhatALineContains) {
  const PerfMapNames found = FindIn(
      "7f0000001000 20 JS:*fib /app/main.js:3:12\n"
      "0x7f0000002000 0x10 py::work:/app/work.py\n",
      {0x7f0000000fff, 0x7f0000001000, 0x7f000000101f, 0x7f0000001020, 0x7f0000002008});
  EXPECT_THAT(found.names, ElementsAre("", "JS:*fib /app/main.js:3:12", "JS:*fib /app/main.js:3:12",
                                       "", "py::work:/app/work.py"));
  EXPECT_EQ(found.malformed, 0U);
  EXPECT_FALSE(found.cut);
}

TEST(PerfMapTest, LastLineCounts) {
  EXPECT_THAT(FindIn("1000 100 old\n1080 10 new\n2000 10 other\n", {0x1000, 0x1080, 0x108f}).names,
              ElementsAre("old", "new", "new"));
  EXPECT_THAT(FindIn("1080 10 old\n1000 100 new\n", {0x1000, 0x1080}).names,
              ElementsAre("new", "new"));
}

TEST(PerfMapTest, LineThatIsStillWrittenIsLeftOut) {
  EXPECT_THAT(FindIn("1000 10 whole\n1000 10 par", {0x1000}).names, ElementsAre("whole"));
  EXPECT_THAT(FindIn("1000 10 alone", {0x1000}).names, ElementsAre(""));
  EXPECT_THAT(FindIn("", {0x1000}).names, ElementsAre(""));
}

TEST(PerfMapTest, MalformedLinesAreCountedAndPassed) {
  const PerfMapNames found = FindIn(
      "\n1000\n1000 10\n1000 10 \nxyz 10 name\n1000 -1 name\n1000 10name\n"
      "11112222333344445555 10 name\n1000 11112222333344445555 name\n 1000 10 name\n"
      "1000 10 good\n",
      {0x1000});
  EXPECT_THAT(found.names, ElementsAre("good"));
  EXPECT_EQ(found.malformed, 10U);
}

TEST(PerfMapTest, RangesMayBeEmptyOrReachTheEnd) {
  EXPECT_THAT(
      FindIn("1000 0 empty\nffffffffffffff00 ffffffffffffffff last\n", {0x1000, UINT64_MAX - 1})
          .names,
      ElementsAre("", "last"));
}

TEST(PerfMapTest, LongLinesAreCut) {
  const std::string name(1 << 20, 'x');
  const PerfMapNames found =
      FindIn("1000 10 " + name + "\n2000 10 after\n" + name + "\n3000 10 " + name + "\n",
             {0x1000, 0x2000, 0x3000});
  EXPECT_EQ(found.names[0], std::string(4096, 'x'));
  EXPECT_EQ(found.names[1], "after");
  EXPECT_EQ(found.names[2], std::string(4096, 'x'));
  EXPECT_EQ(found.malformed, 1U);
}

// Names at every place of the pieces in which a file is read.
TEST(PerfMapTest, LinesMayLieAnywhere) {
  std::string text;
  std::vector<uint64_t> addresses;
  constexpr uint64_t kLines = 50'000;
  for (uint64_t i = 0; i < kLines; ++i) {
    char line[64];
    snprintf(line, sizeof(line), "%llx 8 f%llu\n", static_cast<unsigned long long>(i * 16),
             static_cast<unsigned long long>(i));
    text += line;
    addresses.push_back(i * 16 + 7);
  }
  const PerfMapNames found = FindIn(text, addresses);
  for (uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(found.names[i], "f" + std::to_string(i));
}

TEST(PerfMapTest, OfALargeFileTheEndIsRead) {
  const UniqueFd fd(memfd_create("perf_map", MFD_CLOEXEC));
  const std::string begin = "1000 10 begin\n2000 10 begin\n";
  const std::string end = "\n1000 10 end\n";
  constexpr off_t kSize = off_t{1} << 30;
  ASSERT_EQ(pwrite(fd.get(), begin.data(), begin.size(), 0), static_cast<ssize_t>(begin.size()));
  ASSERT_EQ(pwrite(fd.get(), end.data(), end.size(), kSize), static_cast<ssize_t>(end.size()));
  const auto found = FindInPerfMap(fd.get(), std::vector<uint64_t>{0x1000, 0x2000});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->names, ElementsAre("end", ""));
  EXPECT_TRUE(found->cut);
  EXPECT_LE(found->bytes_read, PerfMapLimits().max_bytes);
}

TEST(PerfMapTest, LinesThatContainEverythingAreBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "0 ffffffffffffffff f\n";
  text += "1000 10 last\n";
  const std::vector<uint64_t> addresses = {0x1000, 0x2000, 0x3000};
  const PerfMapNames cut = FindIn(text, addresses, {.max_matches = 100});
  EXPECT_TRUE(cut.cut);
  EXPECT_THAT(cut.names, Each("f"));
  const PerfMapNames whole = FindIn(text, addresses);
  EXPECT_FALSE(whole.cut);
  EXPECT_THAT(whole.names, ElementsAre("last", "f", "f"));
}

TEST(PerfMapTest, SurvivesRandomBytes) {
  std::mt19937 random(1);
  const std::string letters("0123456789abcdef \t\nx\0\xff-", 23);
  for (int i = 0; i < 500; ++i) {
    std::string text(random() % 200, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    const PerfMapNames found = FindIn(text, {0, 1, 0x10, 0xffff, UINT64_MAX});
    EXPECT_EQ(found.names.size(), 5U);
  }
  EXPECT_THAT(FindIn("1000 10 a\n", {}).names, IsEmpty());
  EXPECT_FALSE(FindInPerfMap(-1, {}).ok());
}

}  // namespace
}  // namespace profd::symbolize
