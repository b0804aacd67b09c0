#include "daemon/probes/jemalloc_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/fd.h"

namespace profd {
namespace {

using Source = JemallocSettings::Source;

std::string Environment(const std::vector<std::string>& strings) {
  std::string text;
  for (const std::string& string : strings) text += string + '\0';
  return text;
}

TEST(ParseEnvironmentTest, TheVariableAndNoOther) {
  const std::string environment =
      Environment({"PATH=/bin", "XMALLOC_CONF=prof:true,lg_prof_sample:1",
                   "MALLOC_CONF=prof:true,prof_active:true,lg_prof_sample:17",
                   "MALLOC_CONF=prof:false,lg_prof_sample:3",
                   "_RJEM_MALLOC_CONF=prof:false,lg_prof_sample:12,lg_prof_sample:13"});
  EnvironmentSettings settings = ParseEnvironment(environment, "MALLOC_CONF");
  EXPECT_EQ(settings.profiling, true);
  EXPECT_EQ(settings.lg_sample, 17U);
  settings = ParseEnvironment(environment, "_RJEM_MALLOC_CONF");
  EXPECT_EQ(settings.profiling, false);
  EXPECT_EQ(settings.lg_sample, 13U) << "the last one counts";
  settings = ParseEnvironment(environment, "OTHER");
  EXPECT_EQ(settings.profiling, std::nullopt);
  EXPECT_EQ(settings.lg_sample, std::nullopt);
}

TEST(ParseEnvironmentTest, WhatIsNoSettingIsLeftOut) {
  for (const std::string value :
       {"", ":", ",", "prof", "prof:", "prof:yes", "prof:TRUE", " prof:true", "xprof:true",
        "lg_prof_sample:", "lg_prof_sample:64", "lg_prof_sample:-1", "lg_prof_sample:1x",
        "lg_prof_sample:99999999999999999999", "opt_lg_prof_sample:5", "prof:true:1"}) {
    const EnvironmentSettings settings =
        ParseEnvironment(Environment({"MALLOC_CONF=" + value}), "MALLOC_CONF");
    EXPECT_EQ(settings.profiling, std::nullopt) << value;
    EXPECT_EQ(settings.lg_sample, std::nullopt) << value;
  }
  EXPECT_EQ(ParseEnvironment("MALLOC_CONF=lg_prof_sample:63", "MALLOC_CONF").lg_sample, 63U);
  EXPECT_EQ(ParseEnvironment("MALLOC_CONF", "MALLOC_CONF").lg_sample, std::nullopt);
  EXPECT_EQ(ParseEnvironment("", "MALLOC_CONF").lg_sample, std::nullopt);
}

TEST(ParseEnvironmentTest, AnyBytes) {
  std::mt19937 random(1);
  const std::string whole = "MALLOC_CONF=prof:true,lg_prof_sample:17";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (int i = 0; i < 3 && !text.empty(); ++i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const EnvironmentSettings settings = ParseEnvironment(text, "MALLOC_CONF");
    EXPECT_LE(settings.lg_sample.value_or(0), 63U);
  }
}

// This process, as if a file that it maps as code held jemalloc, and variables of its own were
// those.
class ReadSettingsTest : public testing::Test {
 protected:
  static constexpr uint64_t kOffset = 16;       // of the function in the file
  static constexpr uint64_t kAddress = 0x4010;  // which the file gives it

  void SetUp() override {
    path_ = testing::TempDir() + "jemalloc_settings_test." + std::to_string(getpid());
    std::ofstream(path_) << std::string(4096, 'x');
    auto fd = OpenReadOnly(path_);
    ASSERT_TRUE(fd.ok()) << fd.status();
    fd_ = *std::move(fd);
    map_ = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd_.get(), 0);
    ASSERT_NE(map_, MAP_FAILED);
    info_.settings_variable = "PROFD_TEST_CONF";  // not in our environment
    info_.objects.born = kOffset;
    info_.objects.born_address = kAddress;
    info_.objects.opt_prof = InFile(&profiling_);
    info_.objects.prof_active = InFile(&active_);
    info_.objects.lg_prof_sample = InFile(&lg_sample_);
  }
  void TearDown() override {
    if (map_ != MAP_FAILED) munmap(map_, 4096);
    unlink(path_.c_str());
  }
  // The address that the file would give to a variable which lies there in memory.
  uint64_t InFile(const void* variable) const {
    return reinterpret_cast<uint64_t>(variable) - reinterpret_cast<uint64_t>(map_) - kOffset +
           kAddress;
  }
  JemallocSettings Read(int pid = getpid()) const {
    return ReadJemallocSettings(pid, fd_.get(), info_);
  }

  std::string path_;
  UniqueFd fd_;
  void* map_ = MAP_FAILED;
  JemallocInfo info_;
  uint8_t profiling_ = 1;
  uint8_t active_ = 1;
  uint64_t lg_sample_ = 14;
};

TEST_F(ReadSettingsTest, FromTheProcessItself) {
  JemallocSettings settings = Read();
  EXPECT_EQ(settings.profiling, true);
  EXPECT_TRUE(settings.active);
  EXPECT_EQ(settings.lg_sample, 14U);
  EXPECT_EQ(settings.source, Source::kMemory);
  EXPECT_EQ(DescribeMissing(settings, info_), "");
  lg_sample_ = 20;
  active_ = 0;
  settings = Read();
  EXPECT_EQ(settings.lg_sample, 20U);
  EXPECT_EQ(DescribeMissing(settings, info_),
            "jemalloc's profiling is not active at present (prof.active): objects that come to "
            "life meanwhile are not counted");
  profiling_ = 0;
  EXPECT_EQ(DescribeMissing(Read(), info_),
            "the live heap is not known: jemalloc runs without profiling; start the process with "
            "PROFD_TEST_CONF=prof:true");
}

TEST_F(ReadSettingsTest, WhatCannotBeIsNotTaken) {
  profiling_ = 2;
  active_ = 7;
  lg_sample_ = 64;
  JemallocSettings settings = Read();
  EXPECT_EQ(settings.profiling, std::nullopt);
  EXPECT_TRUE(settings.active);
  EXPECT_EQ(settings.lg_sample, kDefaultLgSample);
  EXPECT_EQ(settings.source, Source::kDefault);
  EXPECT_EQ(DescribeMissing(settings, info_),
            "whether jemalloc profiles cannot be read; it does when started with "
            "PROFD_TEST_CONF=prof:true");
  // Addresses that lead nowhere.
  for (const uint64_t address :
       {uint64_t{1} << 63, InFile(nullptr), InFile(reinterpret_cast<void*>(uint64_t{1} << 47))}) {
    info_.objects.opt_prof = info_.objects.prof_active = info_.objects.lg_prof_sample = address;
    EXPECT_EQ(Read().profiling, std::nullopt);
    EXPECT_EQ(Read().source, Source::kDefault);
  }
  profiling_ = 1;
  info_.objects.opt_prof = InFile(&profiling_);
  settings = Read();
  EXPECT_EQ(settings.profiling, true);
  EXPECT_EQ(DescribeMissing(settings, info_),
            "jemalloc's sampling interval cannot be read and its default is assumed; "
            "PROFD_TEST_CONF=prof:true,lg_prof_sample:19 says it");
}

TEST_F(ReadSettingsTest, ElseFromTheEnvironment) {
  info_.objects.opt_prof = info_.objects.prof_active = info_.objects.lg_prof_sample = 0;
  const pid_t child = fork();
  if (child == 0) {
    setenv("PROFD_TEST_CONF", "prof:true,lg_prof_sample:16", 1);
    execlp("sleep", "sleep", "60", nullptr);
    _exit(1);
  }
  // Until the child is that program.
  JemallocSettings settings = Read(child);
  for (int i = 0; i < 10'000 && settings.source != Source::kEnvironment; ++i) {
    usleep(1000);
    settings = Read(child);
  }
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(settings.profiling, true);
  EXPECT_EQ(settings.lg_sample, 16U);
  EXPECT_EQ(settings.source, Source::kEnvironment);
  EXPECT_EQ(DescribeMissing(settings, info_), "");
  // It is gone now.
  EXPECT_EQ(Read(child).profiling, std::nullopt);
  info_.objects.note = "no symbols";
  EXPECT_EQ(DescribeMissing(settings, info_), "no symbols");
}

}  // namespace
}  // namespace profd
