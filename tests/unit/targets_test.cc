#include "daemon/target/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/fd.h"
#include "tests/support/end_with.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"

namespace profd {
namespace {

int32_t PidOf(int pidfd) {
  const auto info = ReadWholeFile(absl::StrCat("/proc/self/fdinfo/", pidfd));
  for (absl::string_view line : absl::StrSplit(info.value_or(""), '\n')) {
    int32_t pid = 0;
    if (absl::ConsumePrefix(&line, "Pid:") && absl::SimpleAtoi(line, &pid)) return pid;
  }
  return 0;
}

// It was not there when the processes were listed, and its parent was no target yet.
TEST(TargetsTest, ChildThatIsForkedBeforeItsParentIsMarkedIsFound) {
  int go[2], born[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(born), 0);
  const pid_t self = getpid();
  const pid_t parent = fork();
  if (parent == 0) {
    EndWith(self);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(1);
    const pid_t forked = getpid();
    const pid_t child = fork();
    if (child == 0) {
      EndWith(forked);
      while (true) pause();
    }
    if (write(born[1], &child, sizeof(child)) != sizeof(child)) _exit(1);
    while (true) pause();
  }
  FakeClock clock;
  FakeKernel kernel(&clock);
  std::set<int32_t> marked;
  pid_t child = 0;
  kernel.on_mark = [&](int pidfd) {
    const int32_t pid = PidOf(pidfd);
    if (pid == parent && child == 0) {
      EXPECT_EQ(write(go[1], "g", 1), 1);
      EXPECT_EQ(read(born[0], &child, sizeof(child)), ssize_t{sizeof(child)});
    }
    return marked.insert(pid).second;
  };
  auto selector = Selector::Parse(std::to_string(parent));
  ASSERT_TRUE(selector.ok());
  Targets targets(&kernel, {*std::move(selector)});
  EXPECT_TRUE(targets.MarkRunning().ok());
  EXPECT_THAT(marked, testing::ElementsAre(std::min(parent, child), std::max(parent, child)));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  for (const int fd : {go[0], go[1], born[0], born[1]}) close(fd);
}

}  // namespace
}  // namespace profd
