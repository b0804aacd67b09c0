#include "daemon/base/start_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "daemon/probes/takers.h"

namespace profd {
namespace {

constexpr uid_t kNobody = 65'534;

// Runs `test` in a process to which the kernel grants no more threads; its exit code, -1 when it
// was killed.
template <typename Test>
int WithoutThreads(Test test) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    // The limit is not root's.
    const bool limited = setrlimit(RLIMIT_NPROC, &none) == 0 &&
                         (geteuid() != 0 || setresuid(kNobody, kNobody, kNobody) == 0);
    _exit(limited ? test() : 99);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(StartThreadTest, RunsWithItsArguments) {
  std::atomic<int> sum = 0;
  std::optional<std::thread> thread = StartThread([&](int a, int b) { sum = a + b; }, 2, 3);
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_EQ(sum, 5);
}

TEST(StartThreadTest, NoneWhereTheKernelRefuses) {
  EXPECT_EQ(WithoutThreads([] { return StartThread([] {}) ? 1 : 0; }), 0);
}

TEST(StartThreadTest, ProbesGoWithoutThreadsToo) {
  EXPECT_EQ(WithoutThreads([] {
              Takers(8).Remove(std::vector<Probe>(8));
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace profd
