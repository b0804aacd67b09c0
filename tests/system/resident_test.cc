// Resident memory where a scenario cannot say it: huge pages, which the kernel gives or does not,
// and what the governor does. What is touched in known amounts is in
// tests/scenarios/resident*.toml.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/machine.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

using testing::IsEmpty;
using testing::Not;

constexpr int64_t kMib = 1 << 20;
constexpr int64_t kSecond = 1'000'000'000;

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

  Answer Fetch() {
    v1::FetchRequest request;
    request.add_targets(std::to_string(pid()));
    request.add_sample_types("rss");
    request.mutable_window()->set_since_ns(600 * kSecond);
    absl::StatusOr<Answer> answer = daemon_->Fetch(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : Answer{};
  }

  std::unique_ptr<Target> target_;
  std::unique_ptr<Daemon> daemon_;
};

int64_t Total(const Answer& answer) {
  int64_t total = 0;
  for (const Sample& sample : answer.samples) total += sample.value;
  return total;
}

// A huge page is one fault for 512 pages.
TEST_F(ResidentTest, HugePagesWeighAsMuchAsTheyAre) {
  REQUIRE_FACT("kernel.huge_pages");
  REQUIRE_FACT("kernel.pagemap_scan");
  ASSERT_NO_FATAL_FAILURE(Start({"touch", "1024", "1024", "huge"}, {"--budget", "off"}));
  int64_t huge_kib = 0;
  std::ifstream rollup(absl::StrCat("/proc/", pid(), "/smaps_rollup"));
  for (std::string line; std::getline(rollup, line);) {
    if (sscanf(line.c_str(), "AnonHugePages: %ld kB", &huge_kib) == 1) break;
  }
  if (huge_kib * 1024 < 1'900 * kMib) GTEST_SKIP() << "the kernel had no huge pages to give";
  int64_t total = 0;
  // 1,024 huge pages, of which some 60 are in the sample. It takes several drains to see them all.
  EXPECT_TRUE(Eventually(seconds(60), [&] {
    total = Total(Fetch());
    return static_cast<bool>(Near(total, 2'048 * kMib, 0.6));
  })) << total;
}

// By default a storm of page faults costs too much to be watched: it is given up, and said.
TEST_F(ResidentTest, GovernorGivesItUp) {
  ASSERT_NO_FATAL_FAILURE(
      Start({"touch", "2048", "1024"}, {"--budget", "0.0005cpu", "--disable", "heap,switch"}));
  v1::GovernedSource source;
  absl::StatusOr<v1::GetStatusResponse> status;
  EXPECT_TRUE(Eventually(seconds(60), [&] {
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

}  // namespace
}  // namespace profd::e2e
