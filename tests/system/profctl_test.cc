// The user's view: profctl against a live daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// One run of a mutex and its waiter that all tests look at.
class ProfctlTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (geteuid() != 0) return;
    auto daemon = Daemon::Start({.targets = {"^waiter$"}});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    auto target = Target::Start({"mutex", "100"});
    ASSERT_TRUE(target.ok()) << target.status();
    ASSERT_TRUE((*daemon)->AwaitTarget((*target)->pid()).has_value());
    ASSERT_TRUE((*target)->Go());
    ASSERT_TRUE((*target)->AwaitReport().ok());
    daemon_ = daemon->release();
    target_ = target->release();
  }
  static void TearDownTestSuite() {
    delete target_;
    delete daemon_;
    target_ = nullptr;
    daemon_ = nullptr;
  }
  void SetUp() override {
    SKIP_UNLESS_ROOT();
    ASSERT_NE(daemon_, nullptr);
  }

  Finished Run(const std::vector<std::string>& arguments, const std::string& directory = "") {
    absl::StatusOr<Finished> finished = Profctl(*daemon_, arguments, directory);
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *std::move(finished) : Finished{-1, "", ""};
  }

  static Daemon* daemon_;
  static Target* target_;
};

Daemon* ProfctlTest::daemon_ = nullptr;
Target* ProfctlTest::target_ = nullptr;

TEST_F(ProfctlTest, FoldedLines) {
  const Finished run = Run(
      {"fetch", "--since", "60s", "--thread", "^mutex-waiter$", "--idle", "--format", "folded"});
  ASSERT_EQ(run.code, 0) << run.err;
  int64_t sum = 0, acquiring = 0;
  const std::vector<std::string> lines = absl::StrSplit(run.out, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const size_t space = line.rfind(' ');
    ASSERT_NE(space, std::string::npos) << line;
    int64_t value;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(space + 1), &value)) << line;
    EXPECT_GT(value, 0) << line;
    const std::vector<std::string> frames = absl::StrSplit(line.substr(0, space), ';');
    EXPECT_THAT(frames.front(), HasSubstr("mutex-waiter"));
    EXPECT_TRUE(std::regex_match(frames.back(), std::regex("\\[[a-z]+\\]"))) << line;
    sum += value;
    if (frames.back() != "[lock]" || !absl::StrContains(line, "mutex::Acquire")) continue;
    acquiring += value;
    // Root first: thread, root of the stack, ..., the kernel's frames, the reason.
    EXPECT_LT(line.find("mutex::Waiter"), line.find("mutex::Acquire"));
    EXPECT_LT(line.find("mutex::Acquire"), line.find("_[k]"));
    EXPECT_TRUE(absl::EndsWith(frames[frames.size() - 2], "_[k]")) << line;
  }
  // Of 100 waits of 20 ms.
  EXPECT_GT(acquiring, 1'900'000'000);
  EXPECT_GE(sum, acquiring);
}

TEST_F(ProfctlTest, Json) {
  const Finished run = Run({"fetch", "--since", "60s", "--format", "json", "--idle"});
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << run.out.substr(0, 500);
  EXPECT_THAT(run.out, HasSubstr("mutex-waiter"));
}

TEST_F(ProfctlTest, WritesFlameGraphAndSummaryByDefault) {
  TemporaryDirectory directory;
  const Finished run = Run({"fetch", "--since", "60s"}, directory.path());
  ASSERT_EQ(run.code, 0) << run.err;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].extension(), ".svg");
  EXPECT_THAT(files[0].filename().string(), HasSubstr("waiter"));
  std::ifstream file(files[0]);
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("mutex::Acquire"));
  // Self-contained: it loads nothing.
  EXPECT_THAT(svg, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(svg, Not(HasSubstr("href=\"http")));
  const std::string said = run.out + run.err;
  for (const char* part : {"mutex-waiter", "lock", "idle", "mutex::Acquire"}) {
    EXPECT_THAT(said, HasSubstr(part));
  }
  EXPECT_THAT(said, HasSubstr(files[0].filename().string()));
}

TEST_F(ProfctlTest, ToAFileAndToStdout) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/out.txt";
  ASSERT_EQ(Run({"fetch", "--since", "60s", "--format", "folded", "-o", path}).code, 0);
  EXPECT_GT(std::filesystem::file_size(path), 0U);
  const Finished run = Run({"fetch", "--since", "60s", "--format", "svg", "-o", "-"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out.substr(0, 1000), HasSubstr("<svg"));
}

TEST_F(ProfctlTest, IdleWaitsAreFoldedAway) {
  const auto asked = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"fetch", "--since", "60s", "--format", "folded"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments).out;
  };
  EXPECT_THAT(asked({"--idle"}), HasSubstr("[sleep]"));
  EXPECT_THAT(asked({}), Not(HasSubstr("[sleep]")));
  EXPECT_THAT(asked({"--reason", "lock"}), HasSubstr("[lock]"));
  EXPECT_THAT(asked({"--reason", "lock"}), Not(HasSubstr("[pipe]")));
}

TEST_F(ProfctlTest, Status) {
  const Finished run = Run({"status"});
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* part : {"books", "switch", "tick", "waiter"}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
}

TEST_F(ProfctlTest, ServerFromTheEnvironment) {
  Command command{{PROFCTL_BINARY, "status"}};
  command.environment = {{"PROFCTL_SERVER", daemon_->server()}};
  const auto run = RunToEnd(command, seconds(30));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->code, 0) << run->err;
}

TEST_F(ProfctlTest, SaysWhatWentWrong) {
  const Finished unknown = Run({"fetch", "--since", "60s", "--target", "no-such-process"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no-such-process"));
  EXPECT_EQ(Run({"fetch", "--since", "yesterday"}).code, 2);
  EXPECT_EQ(Run({"fetch", "--reason", "boredom"}).code, 2);
  EXPECT_EQ(Run({"fetch", "--format", "gif"}).code, 2);
  TemporaryDirectory directory;
  const std::string nobody = "unix://" + directory.path() + "/nobody.sock";
  const auto dead = RunToEnd({{PROFCTL_BINARY, "--server", nobody, "status"}}, seconds(30));
  ASSERT_TRUE(dead.ok()) << dead.status();
  EXPECT_EQ(dead->code, 1);
  EXPECT_THAT(dead->err, HasSubstr(nobody));
}

}  // namespace
}  // namespace profd::e2e
