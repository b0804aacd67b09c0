// Address space where a scenario cannot say it: probes are looked for in the code of processes, and
// a profd is killed. Known amounts are in tests/scenarios/mappings*.toml.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/fd.h"
#include "nlohmann/json.hpp"
#include "tests/support/places.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/heap.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

using testing::IsEmpty;

constexpr int64_t kCount = 100;
constexpr int64_t kSecond = 1'000'000'000;

// How many bytes of a process's libc are not as the file has them.
size_t PatchedBytes(int pid) {
  const auto maps = ReadWholeFile(absl::StrCat("/proc/", pid, "/maps"));
  const auto memory = OpenReadOnly(absl::StrCat("/proc/", pid, "/mem"));
  EXPECT_TRUE(maps.ok() && memory.ok());
  if (!maps.ok() || !memory.ok()) return 0;
  for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
    uint64_t begin = 0, end = 0, offset = 0;
    if (!absl::EndsWith(line, "/libc.so.6") ||
        sscanf(std::string(line).c_str(), "%" SCNx64 "-%" SCNx64 " r-xp %" SCNx64, &begin, &end,
               &offset) != 3) {
      continue;
    }
    const auto file = OpenReadOnly(std::string(line.substr(line.find('/'))));
    std::string in_file(end - begin, '\0'), in_memory(end - begin, '\0');
    EXPECT_TRUE(file.ok() && ReadFileAt(file->get(), offset, in_file.data(), in_file.size()).ok() &&
                ReadFileAt(memory->get(), begin, in_memory.data(), in_memory.size()).ok());
    size_t patched = 0;
    for (size_t i = 0; i < in_file.size(); ++i) patched += in_file[i] != in_memory[i] ? 1 : 0;
    return patched;
  }
  ADD_FAILURE() << "no libc in process " << pid;
  return 0;
}

class MappingsTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS_ROOT();
    // A name of its own: other tests' daemons put their probes into every "waiter".
    std::filesystem::copy_file(test::InBuild("waiter"), program());
  }
  std::string program() const { return absl::StrCat(directory_.path(), "/mapper"); }

  std::unique_ptr<Target> StartTarget() {
    auto target = Target::Start({"maps", std::to_string(kCount)}, program());
    EXPECT_TRUE(target.ok()) << target.status();
    return target.ok() ? *std::move(target) : nullptr;
  }
  void StartDaemon(const std::vector<std::string>& targets,
                   const std::vector<std::string>& arguments = {"--budget", "off"}) {
    daemon_.reset();
    auto daemon = Daemon::Start({.targets = targets, .arguments = arguments});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }
  v1::LayerStatus Layer() {
    const auto status = daemon_->Status();
    EXPECT_TRUE(status.ok()) << status.status();
    if (!status.ok()) return {};
    for (const v1::LayerStatus& layer : status->layers()) {
      if (layer.name() == "mappings") return layer;
    }
    ADD_FAILURE() << "no such layer";
    return {};
  }
  // Until probes stand in all processes.
  void AwaitProbes() {
    EXPECT_TRUE(Eventually(kPatience, [&] { return Layer().on() && Layer().note().empty(); }))
        << Layer().DebugString();
  }
  // Lets a target go on, up to the line that says so; gives the number in it.
  static int64_t Go(Target& target, const std::string& line) {
    target.process().Write("go\n");
    const auto said = target.process().LineWith(Stream::kStdout, line, seconds(60));
    EXPECT_TRUE(said.has_value()) << line;
    return said ? std::strtoll(said->c_str() + said->find(line) + line.size(), nullptr, 10) : 0;
  }
  Answer Fetch(int pid, const std::string& kind) {
    v1::FetchRequest request;
    request.add_targets(std::to_string(pid));
    request.add_sample_types(kind);
    request.mutable_window()->set_since_ns(600 * kSecond);
    absl::StatusOr<Answer> answer = daemon_->Fetch(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : Answer{};
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Daemon> daemon_;
};

// Probes stand in the libc of targets only; a profd that is killed takes them along.
TEST_F(MappingsTest, NobodyElseIsProbed) {
  const auto target = StartTarget(), other = StartTarget();
  ASSERT_NE(target, nullptr);
  ASSERT_NE(other, nullptr);
  // A burst would put its probes there, too, for 20 ms.
  ASSERT_NO_FATAL_FAILURE(
      StartDaemon({std::to_string(target->pid())}, {"--budget", "off", "--disable", "bursts"}));
  AwaitProbes();
  EXPECT_EQ(PatchedBytes(target->pid()), 5U) << "mmap, munmap, mremap, brk, madvise";
  EXPECT_EQ(PatchedBytes(other->pid()), 0U);
  Go(*other, "mapped");
  EXPECT_THAT(Fetch(target->pid(), "mapped").samples, IsEmpty());
  daemon_->process().Signal(SIGKILL);
  EXPECT_TRUE(daemon_->process().Wait(seconds(60)).has_value());
  EXPECT_TRUE(Eventually(kPatience, [&] { return PatchedBytes(target->pid()) == 0; }));
  Go(*target, "mapped");
  Go(*target, "unmapped");
}

TEST_F(MappingsTest, ProcessesThatComeLater) {
  const auto first = StartTarget();
  ASSERT_NE(first, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"^mapper$"}));
  EXPECT_TRUE(Eventually(kPatience, [&] { return PatchedBytes(first->pid()) == 5; }));
  const auto second = StartTarget();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(Eventually(kPatience, [&] { return PatchedBytes(second->pid()) == 5; }));
  Go(*second, "mapped");
  int64_t mapped = 0;
  for (const Sample& sample : Fetch(second->pid(), "mapped").samples) {
    mapped += sample.value;
  }
  EXPECT_GE(mapped, kCount * (int64_t{1} << 20)) << "a MiB each in MapSecond alone";
}

TEST_F(MappingsTest, DisabledItPutsNoProbes) {
  const auto target = StartTarget();
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(
      StartDaemon({std::to_string(target->pid())}, {"--disable", "mappings,bursts"}));
  EXPECT_FALSE(Layer().on());
  Go(*target, "mapped");
  EXPECT_EQ(PatchedBytes(target->pid()), 0U);
  const Answer answer = Fetch(target->pid(), "mapped");
  EXPECT_THAT(answer.samples, IsEmpty());
  EXPECT_EQ(answer.type().watched_ns(), 0);
}

// With next to no budget calls are left out, or all of them.
TEST_F(MappingsTest, GovernorTurnsThemDown) {
  const auto target = StartTarget();
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon({std::to_string(target->pid())},
                                      {"--budget", "0.01%", "--disable", "switch,heap,faults"}));
  AwaitProbes();
  bool given_up = false;
  for (int round = 0; round < 200 && !given_up; ++round) {
    Go(*target, "mapped");
    Go(*target, "unmapped");
    std::this_thread::sleep_for(milliseconds(50));
    const auto status = daemon_->Status();
    ASSERT_TRUE(status.ok()) << status.status();
    for (const v1::GovernedSource& source : status->governor().sources()) {
      given_up |= source.name() == "mappings" && source.level() > 0;
    }
  }
  EXPECT_TRUE(given_up);
  EXPECT_EQ(daemon_->Stop(), 0);
}

}  // namespace
}  // namespace profd::e2e
