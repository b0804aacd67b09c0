// Histograms of waits in a thread's account.
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/observe.h"

namespace profd {
namespace {

constexpr int64_t kShort = kMillisecond;

// Six reasons, and the thread's account has places for five.
void WaitForSixReasons(int socket) {
  Nap(kShort);
  poll(nullptr, 0, 1);
  const timespec time = {.tv_sec = 0, .tv_nsec = kShort};
  uint32_t word = 0;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
  char byte = 0;
  recv(socket, &byte, 1, 0);
  sigset_t none;
  sigemptyset(&none);
  sigaddset(&none, SIGUSR1);
  sigtimedwait(&none, nullptr, &time);
  const pid_t child = fork();
  if (child == 0) {
    Nap(kShort);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

TEST_F(KernelTest, WaitsForMoreReasonsThanAnAccountHasPlacesForAreCounted) {
  constexpr int kRounds = 10;
  const Child child([](Child& me) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const timeval time = {.tv_sec = 0, .tv_usec = 1'000};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) != 0) _exit(1);
    me.Wait();
    for (int i = 0; i < kRounds; ++i) WaitForSixReasons(fd);
    me.Signal();
    WaitForever();
  });
  START_OR_SKIP(WithSwitch(true));
  Mark(child);
  EXPECT_EQ(Loss(PROFD_LOSS_DURATION), 0);
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  // One of six at least, and that of how it waited to begin may have a place.
  EXPECT_GE(Loss(PROFD_LOSS_DURATION), kRounds);
  EXPECT_LE(Loss(PROFD_LOSS_DURATION), 3 * kRounds);
  Observe("loss", "wait_duration_lost", Loss(PROFD_LOSS_DURATION));
}

}  // namespace
}  // namespace profd
