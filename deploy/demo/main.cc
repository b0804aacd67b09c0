// A small workload that waits in known ways, one thread each: what deploy/quickstart profiles.
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace demo {

using std::chrono::milliseconds;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "profd-demo: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// Keeps the functions below visible as frames of their own: not inlined, no call in tail position.
#define DEMO_FRAME __attribute__((noinline))
inline void KeepFrame() { asm volatile("" ::: "memory"); }

DEMO_FRAME void ComputeFor(milliseconds length) {
  const auto end = std::chrono::steady_clock::now() + length;
  volatile uint64_t sum = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 1000; ++i) sum = sum + static_cast<uint64_t>(i);
  }
  KeepFrame();
}

// lock: one thread holds the mutex 20 of every 25 ms, two others want it.
class Inventory {
 public:
  DEMO_FRAME void RebuildUnderLock() {
    std::lock_guard lock(mutex_);
    ++version_;
    std::this_thread::sleep_for(milliseconds(20));
    KeepFrame();
  }
  DEMO_FRAME void LookUp() {
    std::lock_guard lock(mutex_);
    ++version_;
    KeepFrame();
  }

 private:
  std::mutex mutex_;
  uint64_t version_ = 0;
};

DEMO_FRAME void HoldInventory(Inventory& inventory) {
  for (;;) {
    inventory.RebuildUnderLock();
    std::this_thread::sleep_for(milliseconds(5));
    KeepFrame();
  }
}

DEMO_FRAME void WaitForInventory(Inventory& inventory) {
  for (;;) {
    inventory.LookUp();
    ComputeFor(milliseconds(1));
    KeepFrame();
  }
}

// fsync: a journal that is written and made durable, over and over.
DEMO_FRAME void CommitJournal(int fd, const std::vector<char>& page) {
  if (pwrite(fd, page.data(), page.size(), 0) < 0) Fail("write of the journal");
  if (fsync(fd) != 0) Fail("fsync of the journal");
  KeepFrame();
}

DEMO_FRAME void WriteJournal(const std::string& directory) {
  std::string path = directory + "/profd-demo.XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) Fail(("journal in " + directory).c_str());
  unlink(path.c_str());
  const std::vector<char> page(64 * 1024, 'x');
  for (;;) {
    for (int i = 0; i < 32; ++i) CommitJournal(fd, page);
    std::this_thread::sleep_for(milliseconds(5));
    KeepFrame();
  }
}

// pipe: the reader waits 30 ms for each byte.
DEMO_FRAME void ReadMessages(int fd) {
  char byte;
  while (read(fd, &byte, 1) == 1) KeepFrame();
}

DEMO_FRAME void SendMessages(int fd) {
  for (;;) {
    std::this_thread::sleep_for(milliseconds(30));
    if (write(fd, "x", 1) != 1) return;
    KeepFrame();
  }
}

// sleep: naps of 50 ms, far apart in the graph from the pauses of the other threads.
DEMO_FRAME void TakeNaps() {
  for (;;) {
    std::this_thread::sleep_for(milliseconds(50));
    KeepFrame();
  }
}

// poll: the main thread's event loop, a timer of 100 ms and nothing else to do until a signal.
DEMO_FRAME void RunEventLoop(const sigset_t& stop) {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const int signals = signalfd(-1, &stop, SFD_CLOEXEC);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (timer < 0 || signals < 0 || epoll < 0) Fail("event loop");
  itimerspec every{};
  every.it_value.tv_nsec = every.it_interval.tv_nsec = 100'000'000;
  if (timerfd_settime(timer, 0, &every, nullptr) != 0) Fail("timerfd_settime");
  for (const int fd : {timer, signals}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) Fail("epoll_ctl");
  }
  for (;;) {
    epoll_event event{};
    const int ready = epoll_wait(epoll, &event, 1, -1);
    if (ready < 0 && errno != EINTR) Fail("epoll_wait");
    if (ready <= 0) continue;
    if (event.data.fd == signals) return;
    uint64_t expirations;
    if (read(timer, &expirations, sizeof(expirations)) < 0) Fail("timerfd");
    KeepFrame();
  }
}

// Threads are never joined: the process ends by its signal.
void Start(const char* name, std::function<void()> body) {
  std::thread thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    body();
  });
  thread.detach();
}

constexpr std::string_view kUsage =
    "Usage: profd-demo [--dir DIRECTORY]\n"
    "Waits in known ways until it is told to stop: two threads for a lock that a third holds\n"
    "20 of every 25 ms, one for fsync, one for a pipe that gets a byte every 30 ms, one in naps\n"
    "of 50 ms, one in an event loop.\n"
    "  --dir DIRECTORY  where the fsynced file lies, on a real disk (default: /var/tmp)\n";

int Main(int argc, char** argv) {
  std::string directory = "/var/tmp";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage.data(), stdout);
      return 0;
    }
    if (argument != "--dir" || i + 1 == argc) {
      std::fputs(kUsage.data(), stderr);
      return 2;
    }
    directory = argv[++i];
  }

  // Blocked before the first thread starts, so that only the event loop takes them.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);

  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) Fail("pipe");
  static Inventory inventory;
  Start("lock-holder", [] { HoldInventory(inventory); });
  Start("lock-waiter-1", [] { WaitForInventory(inventory); });
  Start("lock-waiter-2", [] { WaitForInventory(inventory); });
  Start("journal", [directory] { WriteJournal(directory); });
  Start("pipe-reader", [fd = pipe_fds[0]] { ReadMessages(fd); });
  Start("pipe-writer", [fd = pipe_fds[1]] { SendMessages(fd); });
  Start("napper", [] { TakeNaps(); });
  std::fputs("profd-demo: ready\n", stderr);

  RunEventLoop(stop);
  // The threads still use `inventory`; no destructor may run under them.
  std::_Exit(0);
}

}  // namespace demo

int main(int argc, char** argv) { return demo::Main(argc, argv); }
