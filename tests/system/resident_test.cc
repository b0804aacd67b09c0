// Resident memory by who touched it first, on a program that touches in known amounts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

using Stream = Subprocess::Stream;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kMib = 1 << 20;
constexpr int64_t kSecond = 1'000'000'000;

// RssAnon of a process, bytes; 0 where it cannot be read.
int64_t RssAnon(int pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    int64_t kib = 0;
    if (sscanf(line.c_str(), "RssAnon: %ld kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

class ResidentTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  // Starts a daemon and a target that has touched its memory.
  void Start(const std::vector<std::string>& scenario, const std::vector<std::string>& arguments) {
    auto target = Target::Start(scenario);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
    auto daemon = Daemon::Start({.targets = {std::to_string(pid())}, .arguments = arguments});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    ASSERT_TRUE(daemon_->AwaitTarget(pid()).has_value());
    Go("touched");
  }
  int pid() const { return target_->pid(); }
  // Lets the target go on, up to the line that says so.
  void Go(const std::string& line) {
    target_->process().Write("go\n");
    ASSERT_TRUE(target_->process().LineWith(Stream::kStdout, line, seconds(60)).has_value());
  }

  Answer Fetch(int64_t begin_wall_ns = 0, int64_t end_wall_ns = 0) {
    v1::FetchRequest request;
    request.add_targets(std::to_string(pid()));
    request.set_kind(v1::PROFILE_KIND_RESIDENT);
    request.set_begin_ns(begin_wall_ns);
    request.set_end_ns(end_wall_ns);
    request.set_since_ns(600 * kSecond);
    absl::StatusOr<Answer> answer = daemon_->Fetch(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : Answer{};
  }

  std::unique_ptr<Target> target_;
  std::unique_ptr<Daemon> daemon_;
};

struct Level {
  int64_t bytes = 0;
  int64_t growth = 0;
  int64_t variance_root = 0;  // the largest single error
};

// By the function of the target that touched; what has none is under "".
std::map<std::string, Level> Levels(const Answer& answer) {
  std::map<std::string, Level> levels;
  for (const v1::Sample& sample : answer.samples) {
    std::string name;
    for (const v1::Frame& frame : answer.FramesOf(sample)) {
      for (const char* function : {"TouchFirst", "TouchSecond", "TouchAgain"}) {
        if (frame.function().find(function) != std::string::npos) name = function;
      }
    }
    levels[name].bytes += sample.bytes();
    levels[name].growth += sample.growth_bytes();
    levels[name].variance_root = std::max(levels[name].variance_root, sample.error_bytes());
  }
  return levels;
}

int64_t Total(const Answer& answer) {
  int64_t total = 0;
  for (const v1::Sample& sample : answer.samples) total += sample.bytes();
  return total;
}

// One page in 17 is in the sample: a GiB stands on 15,400 of them, with a standard error of 0.8 %.
// There are three of which nothing is shared, what stays of the first, what is given back of it,
// and the second: one of them is off by 3 % once in 2,700 runs.
TEST_F(ResidentTest, KnownPatternIsFoundAndGoesDownWhenItIsGivenBack) {
  const int64_t first = 2'048 * kMib, second = 1'024 * kMib;
  ASSERT_NO_FATAL_FAILURE(Start({"touch", "2048", "1024"}, {"--budget", "off"}));
  Answer answer = Fetch();
  EXPECT_EQ(answer.header.kind(), v1::PROFILE_KIND_RESIDENT);
  std::map<std::string, Level> levels = Levels(answer);
  EXPECT_TRUE(Near(levels["TouchFirst"].bytes, first, 0.03));
  EXPECT_TRUE(Near(levels["TouchSecond"].bytes, second, 0.03));
  EXPECT_TRUE(Near(levels["TouchSecond"].growth, second, 0.03)) << "all of it in this window";
  EXPECT_GT(levels["TouchFirst"].variance_root, first / 500);
  EXPECT_LT(levels["TouchFirst"].variance_root, first / 50);
  EXPECT_TRUE(Near(Total(answer), RssAnon(pid()), 0.03));
  EXPECT_GE(answer.trailer.complete_share(), 0.99);
  ExpectNoLoss(answer);
  const int64_t touched_ns = answer.header.end_ns();

  ASSERT_NO_FATAL_FAILURE(Go("given back"));
  // A look at so many pages takes its time, and the next one comes 400 times as long after it.
  EXPECT_TRUE(Eventually(seconds(60), [&] {
    levels = Levels(Fetch(touched_ns));
    return Near(levels["TouchFirst"].bytes, first / 2, 0.03);
  })) << levels["TouchFirst"].bytes;
  EXPECT_TRUE(Near(levels["TouchFirst"].growth, -first / 2, 0.03));
  EXPECT_TRUE(Near(levels["TouchSecond"].bytes, second, 0.03)) << "touched before the window";
  EXPECT_EQ(levels["TouchSecond"].growth, 0);

  ASSERT_NO_FATAL_FAILURE(Go("touched again"));
  levels = Levels(Fetch());
  EXPECT_TRUE(Near(levels["TouchAgain"].bytes, first / 2, 0.03));
  EXPECT_TRUE(Near(levels["TouchFirst"].bytes, first / 2, 0.03));
  // What was there at an instant of the past.
  levels = Levels(Fetch(touched_ns - 3 * kSecond, touched_ns));
  EXPECT_TRUE(Near(levels["TouchFirst"].bytes, first, 0.03));
  EXPECT_EQ(levels["TouchAgain"].bytes, 0);

  // Nothing of a process that is gone is resident; what was is.
  const int64_t before_ns = Fetch().header.end_ns();
  target_->process().Write("go\n");
  target_->process().CloseStdin();
  EXPECT_EQ(target_->process().Wait(seconds(20)), 0);
  EXPECT_TRUE(Eventually(seconds(20), [&] { return Total(Fetch(before_ns)) == 0; }));
  EXPECT_GT(Total(Fetch(before_ns - 2 * kSecond, before_ns)), second);
  EXPECT_EQ(daemon_->Stop(), 0);
}

// A huge page is one fault for 512 pages.
TEST_F(ResidentTest, HugePagesWeighAsMuchAsTheyAre) {
  std::ifstream enabled("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(enabled, modes);
  if (modes.find('[') == std::string::npos || modes.find("[never]") != std::string::npos) {
    GTEST_SKIP() << "no transparent huge pages";
  }
  ASSERT_NO_FATAL_FAILURE(Start({"touch", "1024", "1024", "huge"}, {"--budget", "off"}));
  int64_t huge_kib = 0;
  std::ifstream rollup(absl::StrCat("/proc/", pid(), "/smaps_rollup"));
  for (std::string line; std::getline(rollup, line);) {
    if (sscanf(line.c_str(), "AnonHugePages: %ld kB", &huge_kib) == 1) break;
  }
  if (huge_kib * 1024 < 1'900 * kMib) GTEST_SKIP() << "the kernel had no huge pages to give";
  int64_t total = 0;
  const bool found = Eventually(seconds(15), [&] {
    total = Total(Fetch());
    return total > 500 * kMib;
  });
  if (!found && total < 100 * kMib) GTEST_SKIP() << "this kernel does not tell huge pages (6.7)";
  // 1,024 huge pages, of which some 60 are in the sample.
  EXPECT_TRUE(Near(total, 2'048 * kMib, 0.6));
}

// By default a storm of page faults costs too much to be watched: it is given up, and said.
TEST_F(ResidentTest, GovernorGivesItUp) {
  ASSERT_NO_FATAL_FAILURE(
      Start({"touch", "2048", "1024"}, {"--budget", "1%", "--disable", "heap,switch"}));
  v1::GovernedSource source;
  absl::StatusOr<v1::GetStatusResponse> status;
  EXPECT_TRUE(Eventually(seconds(5), [&] {
    status = daemon_->Status();
    if (!status.ok()) return false;
    for (const v1::GovernedSource& s : status->governor().sources()) {
      if (s.name() == "faults") source = s;
    }
    return source.level() > 0;
  })) << status->governor().DebugString();
  EXPECT_TRUE(source.in_path());
  EXPECT_THAT(source.given_up(), Not(IsEmpty()));
  EXPECT_GT(status->cost().faults(), 10'000U);
  EXPECT_GT(status->cost().fault_in_path_ns(), 0);
}

TEST_F(ResidentTest, DisabledItCostsNothing) {
  ASSERT_NO_FATAL_FAILURE(Start({"touch", "64", "64"}, {"--disable", "faults"}));
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->cost().faults(), 0U);
  for (const v1::LayerStatus& layer : status->layers()) {
    if (layer.name() == "faults") {
      EXPECT_FALSE(layer.on());
      EXPECT_THAT(layer.note(), HasSubstr("--disable"));
    }
  }
  const Answer answer = Fetch();
  EXPECT_EQ(answer.header.heap_ns(), 0);
  EXPECT_EQ(Total(answer), 0);
}

}  // namespace
}  // namespace profd::e2e
