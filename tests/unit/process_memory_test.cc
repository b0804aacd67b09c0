#include "daemon/memory/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/memory/fields.h"

namespace profd {
namespace {

constexpr int64_t kKiB = 1024;

std::string Stat(const std::string& name, const std::string& rest) {
  return "11 (" + name + ") " + rest;
}
// State to starttime, the twenty fields after the name.
constexpr char kRest[] =
    "S 1 11 11 0 -1 4194304 1234 99 56 7 10 20 0 0 20 0 3 0 4200 1000000 250 1 1 1";

TEST(FieldsTest, NumbersStandAlone) {
  EXPECT_EQ(ParseNumber("0"), 0);
  EXPECT_EQ(ParseNumber("4611686018427387904"), int64_t{1} << 62);
  for (const char* bad : {"", " 1", "1 ", "-1", "+1", "0x1", "1.5", "max", "4611686018427387905",
                          "18446744073709551616", "99999999999999999999999"}) {
    EXPECT_EQ(ParseNumber(bad), std::nullopt) << bad;
  }
}

TEST(FieldsTest, SplitKeepsEmptyPieces) {
  EXPECT_EQ(SplitAt("", ',').size(), 1u);
  EXPECT_EQ(SplitAt("a,,b,", ',').size(), 4u);
  EXPECT_EQ(SplitAt("a,,b,", ',')[2], "b");
}

TEST(ParseStatTest, TakesFaultsStartAndName) {
  const auto stat = ParseStat(Stat("redis-server", kRest));
  ASSERT_TRUE(stat.ok()) << stat.status();
  EXPECT_EQ(stat->name, "redis-server");
  EXPECT_EQ(stat->minor_faults, 1234);
  EXPECT_EQ(stat->major_faults, 56);
  EXPECT_EQ(stat->start_ns, 4200 * (1'000'000'000 / sysconf(_SC_CLK_TCK)));
  EXPECT_FALSE(stat->kernel_thread);
}

TEST(ParseStatTest, NamesCannotForgeTheRest) {
  for (const char* name : {") S 1 (", "a) R 2 3", "(((", ")))", " ", "a\nb) S 9", "\xff"}) {
    const auto stat = ParseStat(Stat(name, kRest));
    ASSERT_TRUE(stat.ok()) << name;
    EXPECT_EQ(stat->name, name);
    EXPECT_EQ(stat->minor_faults, 1234);
  }
}

TEST(ParseStatTest, KernelThreadsAreTold) {
  const auto stat = ParseStat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0");
  ASSERT_TRUE(stat.ok());
  EXPECT_TRUE(stat->kernel_thread);
}

TEST(ParseStatTest, WhatIsCutOrImpossibleIsRefused) {
  const std::string whole = Stat("a", kRest);
  // Up to the start time every cut takes something that is needed.
  const size_t needed = whole.find("4200");
  for (size_t length = 0; length <= needed; ++length) {
    EXPECT_FALSE(ParseStat(whole.substr(0, length)).ok()) << whole.substr(0, length);
  }
  EXPECT_TRUE(ParseStat(whole.substr(0, needed + 4)).ok());
  for (const char* field : {"4194304", "1234", "56", "4200"}) {
    for (const char* bad : {"-1", "x", "99999999999999999999"}) {
      std::string text = whole;
      text.replace(text.find(field), strlen(field), bad);
      EXPECT_FALSE(ParseStat(text).ok()) << text;
    }
  }
  std::string late = whole;
  late.replace(late.find("4200"), 4, "4611686018427387904");
  EXPECT_FALSE(ParseStat(late).ok()) << "beyond the end of time";
  EXPECT_FALSE(ParseStat(")(").ok());
}

TEST(ParseStatusTest, TakesKilobytes) {
  const ProcessFigures figures = ParseStatus(
      "Name:\tVmRSS\nVmPeak:\t  900 kB\nVmRSS:\t     120 kB\nRssAnon:\t 70 kB\nRssFile:\t40 kB\n"
      "RssShmem:\t10 kB\nVmPTE:\t 8 kB\nVmSwap:\t0 kB\nThreads:\t3\n");
  EXPECT_EQ(figures.rss, 120 * kKiB);
  EXPECT_EQ(figures.anon, 70 * kKiB);
  EXPECT_EQ(figures.file, 40 * kKiB);
  EXPECT_EQ(figures.shmem, 10 * kKiB);
  EXPECT_EQ(figures.page_tables, 8 * kKiB);
  EXPECT_EQ(figures.swap, 0) << "none is not unknown";
  EXPECT_EQ(figures.threads, 3);
}

TEST(ParseStatusTest, WhatIsNotThereIsAbsent) {
  const ProcessFigures zombie = ParseStatus("Name:\tz\nState:\tZ (zombie)\nThreads:\t1\n");
  EXPECT_EQ(zombie.rss, std::nullopt);
  EXPECT_EQ(zombie.swap, std::nullopt);
  EXPECT_EQ(zombie.threads, 1);
  for (const char* text :
       {"", "\n\n", "VmRSS", "VmRSS:", "VmRSS:\t12", "VmRSS:\t12 k", "VmRSS:\t kB", "VmRSS:\t-1 kB",
        "VmRSS:\t1 2 kB", "VmRSS:\t12 MB", "xVmRSS:\t12 kB", "VmRSSx:\t12 kB",
        "VmRSS:\t9007199254740993000 kB", "VmRSS:\t99999999999999999999999 kB"}) {
    EXPECT_EQ(ParseStatus(text).rss, std::nullopt) << text;
  }
  EXPECT_EQ(ParseStatus("VmRSS:\t12 kB").rss, 12 * kKiB) << "without an end of the line";
}

TEST(ParsePssTest, IsTheWholeOneNotAPart) {
  EXPECT_EQ(ParsePss("55d3-7ffe ---p 00000000 00:00 0   [rollup]\nRss:  1728 kB\nPss:   276 kB\n"
                     "Pss_Dirty:   112 kB\n"),
            276 * kKiB);
  EXPECT_EQ(ParsePss("Pss_Dirty:   112 kB\n"), std::nullopt);
}

TEST(ProcessDirectoryTest, ReadsOurselves) {
  const auto directory = ProcessDirectory::Open("/proc", getpid());
  ASSERT_TRUE(directory.ok()) << directory.status();
  constexpr size_t kBytes = 64 << 20;
  const auto rss = [&] { return *ParseStatus(*directory->Read("status")).rss; };
  const int64_t before = rss();
  // The kernel touches it: a sanitizer would touch its own memory beside ours.
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_NEAR(static_cast<double>(rss() - before), kBytes, 0.02 * kBytes);
  const auto pss = ParsePss(*directory->Read("smaps_rollup"));
  ASSERT_TRUE(pss.has_value());
  EXPECT_GE(*pss, static_cast<int64_t>(kBytes));
  munmap(memory, kBytes);
  const auto stat = ParseStat(*directory->Read("stat"));
  ASSERT_TRUE(stat.ok()) << stat.status();
  EXPECT_LE(stat->start_ns, BootNs());
  EXPECT_GT(stat->minor_faults, 0);
}

TEST(ProcessDirectoryTest, NeverReadsTheNextProcessOfAPid) {
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(hold[1]);
    (void)!read(hold[0], &byte, 1);
    _exit(0);
  }
  const auto directory = ProcessDirectory::Open("/proc", child);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_TRUE(directory->Read("stat").ok());
  close(hold[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(hold[0]);
  EXPECT_TRUE(absl::IsNotFound(directory->Read("stat").status()));
  EXPECT_TRUE(absl::IsNotFound(ProcessDirectory::Open("/proc", child).status()));
  EXPECT_TRUE(absl::IsNotFound(ProcessDirectory::Open("/proc", -1).status()));
}

}  // namespace
}  // namespace profd
