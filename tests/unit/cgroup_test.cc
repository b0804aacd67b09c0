#include "daemon/memory/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ParseCgroupTest, VersionOneWhereMemoryIsMountedSo) {
  const auto place =
      ParseCgroup("9:name=systemd:/\n5:cpu,memory:/process/2a:b c\n3:cpuset:/x\n0::/unified\n");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->version, 1);
  EXPECT_EQ(place->path, "/process/2a:b c");
}

TEST(ParseCgroupTest, ElseVersionTwo) {
  const auto place = ParseCgroup("0::/system.slice/reth.service\n");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->version, 2);
  EXPECT_EQ(place->path, "/system.slice/reth.service");
  EXPECT_EQ(ParseCgroup("4:memoryx:/a\n0::/b\n")->version, 2);
}

TEST(ParseCgroupTest, ControllersMayBeInDifferentPlaces) {
  const char* const text = "5:cpu,cpuacct:/c\n4:memory:/m\n0::/u\n";
  EXPECT_EQ(ParseCgroup(text)->path, "/m");
  EXPECT_EQ(ParseCgroup(text, CgroupController::kCpu),
            (CgroupPlace{1, "/c", CgroupController::kCpu}));
  EXPECT_EQ(ParseCgroup("4:memory:/m\n0::/u\n", CgroupController::kCpu)->path, "/u");
  const CgroupMounts mounts = CgroupMounts::Parse(
      "1 1 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n"
      "2 1 0:2 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  EXPECT_THAT(mounts.DirectoriesOf({1, "/c", CgroupController::kCpu}),
              ElementsAre("/cg/cpu/c", "/cg/cpu"));
  EXPECT_THAT(mounts.DirectoriesOf({1, "/c"}), ElementsAre("/cg/memory/c", "/cg/memory"));
}

TEST(ParseCgroupTest, WhatIsNoneIsNone) {
  for (const char* text :
       {"", "\n", "0", "0:", "0::", "0::relative", "4:cpu:/a\n", ":::", "1::/a"}) {
    EXPECT_EQ(ParseCgroup(text), std::nullopt) << text;
  }
}

constexpr char kHybrid[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:3 - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(CgroupMountsTest, FindsTheDirectoriesUpToTheMount) {
  const CgroupMounts mounts = CgroupMounts::Parse(kHybrid);
  EXPECT_THAT(mounts.DirectoriesOf({1, "/a/b c"}),
              ElementsAre("/sys/fs/cgroup/memory/a/b c", "/sys/fs/cgroup/memory/a",
                          "/sys/fs/cgroup/memory"));
  EXPECT_THAT(mounts.DirectoriesOf({1, "/"}), ElementsAre("/sys/fs/cgroup/memory"));
  EXPECT_THAT(mounts.DirectoriesOf({2, "/u"}),
              ElementsAre("/sys/fs/cgroup/unified/u", "/sys/fs/cgroup/unified"));
  EXPECT_THAT(mounts.DirectoriesOf({0, "/u"}), IsEmpty());
}

TEST(CgroupMountsTest, AMountMayShowAPartOnly) {
  const CgroupMounts mounts = CgroupMounts::Parse(
      "35 31 0:32 /docker/12\\0403 /mnt/a\\134b ro - cgroup2 cgroup2 rw,nsdelegate\n");
  EXPECT_THAT(mounts.DirectoriesOf({2, "/docker/12 3"}), ElementsAre("/mnt/a\\b"));
  EXPECT_THAT(mounts.DirectoriesOf({2, "/docker/12 3/app"}),
              ElementsAre("/mnt/a\\b/app", "/mnt/a\\b"));
  EXPECT_THAT(mounts.DirectoriesOf({2, "/docker/12 34"}), IsEmpty()) << "another one";
  EXPECT_THAT(mounts.DirectoriesOf({2, "/"}), IsEmpty());
  EXPECT_THAT(mounts.DirectoriesOf({1, "/docker/12 3"}), IsEmpty());
}

TEST(CgroupMountsTest, NothingOutsideOfOurNamespaceIsRead) {
  const CgroupMounts mounts = CgroupMounts::Parse(kHybrid);
  for (const char* path : {"/..", "/../other", "/a/../../etc", "/../../.."}) {
    EXPECT_THAT(mounts.DirectoriesOf({1, path}), IsEmpty()) << path;
  }
  EXPECT_THAT(mounts.DirectoriesOf({1, "/..a"}),
              ElementsAre("/sys/fs/cgroup/memory/..a", "/sys/fs/cgroup/memory"));
}

TEST(CgroupMountsTest, HostileLinesArePassedOver) {
  EXPECT_THAT(CgroupMounts::Parse("").DirectoriesOf({2, "/a"}), IsEmpty());
  for (const char* line : {" - ", "1 2 3 - cgroup2 x y", "1 2 3 / /mnt - cgroup2 x y",
                           "1 2 3 / /mnt rw - cgroup2 x", "1 2 3 / /mnt rw - cgroup x rw,memoryx",
                           "1 2 3 / /mnt rw cgroup2 x y", "\\", "1 2 3 \\1"}) {
    const CgroupMounts mounts = CgroupMounts::Parse(line);
    EXPECT_THAT(mounts.DirectoriesOf({1, "/a"}), IsEmpty()) << line;
    EXPECT_THAT(mounts.DirectoriesOf({2, "/a"}), IsEmpty()) << line;
  }
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "/a";
  EXPECT_THAT(CgroupMounts::Parse(kHybrid).DirectoriesOf({1, deep}), IsEmpty());
}

class ReadCgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/profd-cgroup-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    top_ = name;
    std::filesystem::create_directories(top_ + "/a/b");
    directories_ = {top_ + "/a/b", top_ + "/a", top_};
  }
  void TearDown() override { std::filesystem::remove_all(top_); }
  void Write(const std::string& file, const std::string& text) {
    std::ofstream(top_ + "/" + file) << text;
  }

  std::string top_;
  std::vector<std::string> directories_;
};

TEST_F(ReadCgroupTest, VersionTwoWithTheTightestLimit) {
  Write("a/b/memory.current", "1048576\n");
  Write("a/b/memory.max", "max\n");
  Write("a/memory.max", "8388608\n");
  Write("memory.max", "16777216\n");
  Write("a/b/memory.events", "low 0\nhigh 4\nmax 3\noom 2\noom_kill 1\noom_group_kill 9\n");
  const CgroupFigures figures = ReadCgroup(2, directories_);
  EXPECT_EQ(figures.current, 1'048'576);
  EXPECT_EQ(figures.limit, 8'388'608);
  EXPECT_EQ(figures.limit_hits, 3);
  EXPECT_EQ(figures.high_hits, 4);
  EXPECT_EQ(figures.oom_kills, 1);
}

TEST_F(ReadCgroupTest, VersionOne) {
  Write("a/b/memory.usage_in_bytes", "4096\n");
  Write("a/b/memory.limit_in_bytes", "9223372036854771712\n");
  Write("a/memory.limit_in_bytes", "9223372036854771712\n");
  Write("a/b/memory.failcnt", "7\n");
  Write("a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  CgroupFigures figures = ReadCgroup(1, directories_);
  EXPECT_EQ(figures.current, 4096);
  EXPECT_EQ(figures.limit, std::nullopt) << "none";
  EXPECT_EQ(figures.limit_hits, 7);
  EXPECT_EQ(figures.high_hits, std::nullopt);
  EXPECT_EQ(figures.oom_kills, 2);
  Write("a/b/memory.limit_in_bytes", "65536\n");
  Write("a/memory.limit_in_bytes", "131072\n");
  figures = ReadCgroup(1, directories_);
  EXPECT_EQ(figures.limit, 65536);
}

TEST_F(ReadCgroupTest, WhatCannotBeReadIsAbsent) {
  for (const int version : {1, 2}) {
    const CgroupFigures figures = ReadCgroup(version, directories_);
    EXPECT_EQ(figures.current, std::nullopt);
    EXPECT_EQ(figures.limit, std::nullopt);
    EXPECT_EQ(figures.oom_kills, std::nullopt);
    EXPECT_EQ(figures.limit_hits, std::nullopt);
  }
  EXPECT_EQ(ReadCgroup(2, {}).current, std::nullopt);
  Write("a/b/memory.current", "-5\n");
  Write("a/b/memory.max", "12 34\n");
  Write("a/b/memory.events", "max\nmax x\noom_kill 1 2\nxmax 5\n");
  const CgroupFigures figures = ReadCgroup(2, directories_);
  EXPECT_EQ(figures.current, std::nullopt);
  EXPECT_EQ(figures.limit, std::nullopt);
  EXPECT_EQ(figures.limit_hits, std::nullopt);
  EXPECT_EQ(figures.oom_kills, std::nullopt);
}

TEST_F(ReadCgroupTest, QuotaOfVersionTwo) {
  Write("a/b/cpu.max", "max 100000\n");
  Write("a/cpu.max", "50000 100000\n");
  Write("cpu.max", "200000 100000\n");
  Write("a/b/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_usec 1\n");
  Write("a/cpu.stat", "usage_usec 9\nnr_periods 40\nnr_throttled 12\nthrottled_usec 3000\n");
  CpuQuota quota = ReadCpuQuota(2, directories_);
  EXPECT_EQ(quota.millicpus, 500) << "the tightest";
  EXPECT_EQ(quota.level, 1);
  EXPECT_EQ(quota.periods, 40);
  EXPECT_EQ(quota.throttled_periods, 12);
  EXPECT_EQ(quota.throttled_ns, 3'000'000);
  Write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(ReadCpuQuota(2, directories_).level, 0) << "as tight, and nearer";
}

TEST_F(ReadCgroupTest, QuotaOfVersionOne) {
  Write("a/b/cpu.cfs_quota_us", "-1\n");
  Write("a/b/cpu.cfs_period_us", "100000\n");
  Write("a/b/cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_time 123456789\n");
  CpuQuota quota = ReadCpuQuota(1, directories_);
  EXPECT_EQ(quota.millicpus, std::nullopt);
  EXPECT_EQ(quota.level, 0);
  EXPECT_EQ(quota.periods, 7) << "they are the base of what comes";
  Write("a/b/cpu.cfs_quota_us", "150000\n");
  quota = ReadCpuQuota(1, directories_);
  EXPECT_EQ(quota.millicpus, 1500);
  EXPECT_EQ(quota.throttled_periods, 3);
  EXPECT_EQ(quota.throttled_ns, 123'456'789);
}

TEST_F(ReadCgroupTest, AQuotaThatMakesNoSenseIsNone) {
  EXPECT_EQ(ReadCpuQuota(2, {}).level, std::nullopt);
  for (const std::string& text :
       std::vector<std::string>{"", "5", "5 0", "0 100000", "-5 100000", "1 2 3", "x 100000",
                                "9223372036854775807 1", "max"}) {
    Write("a/b/cpu.max", text + "\n");
    EXPECT_EQ(ReadCpuQuota(2, directories_).millicpus, std::nullopt) << text;
  }
  Write("a/b/cpu.stat", "nr_periods -1\nnr_throttled x\nthrottled_usec 9223372036854775807\n");
  const CpuQuota quota = ReadCpuQuota(2, directories_);
  EXPECT_EQ(quota.periods, std::nullopt);
  EXPECT_EQ(quota.throttled_periods, std::nullopt);
  EXPECT_EQ(quota.throttled_ns, std::nullopt);
}

}  // namespace
}  // namespace profd
