#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bench/load/load.h"

namespace load {
namespace {

struct Waits {
  int event = -1;   // never readable
  int socket = -1;  // never sent to
  std::atomic<uint32_t> futex{0};
  std::atomic<int> begun{0};
};
Waits g_waits;

KEEP_FRAME void OnFutex() {
  syscall(SYS_futex, &g_waits.futex, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
}
KEEP_FRAME void InPoll() {
  pollfd fd{g_waits.event, POLLIN, 0};
  poll(&fd, 1, -1);
}
KEEP_FRAME void InSleep() { Sleep(24 * 3600 * int64_t{1'000'000'000}); }
KEEP_FRAME void InRecv() {
  char byte;
  recv(g_waits.socket, &byte, 1, 0);
}

KEEP_FRAME void* Idle(void* argument) {
  const auto kind = reinterpret_cast<uintptr_t>(argument) % 4;
  g_waits.begun++;
  for (;;) {
    if (kind == 0) OnFutex();
    if (kind == 1) InPoll();
    if (kind == 2) InSleep();
    if (kind == 3) InRecv();
  }
}

}  // namespace

void StartIdle(int count) {
  g_waits.event = eventfd(0, EFD_CLOEXEC);
  int pair[2];
  Check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
  g_waits.socket = pair[0];
  for (int i = 0; i < count; ++i) Start("idle", Idle, reinterpret_cast<void*>(uintptr_t(i)));
  while (g_waits.begun.load() < count) Sleep(1'000'000);
}

}  // namespace load
