#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace mutex {

struct Shared {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  sem_t held, done;
  int64_t count;
};

KEEP_FRAME void Hold(Meter* meter, Shared* shared) {
  pthread_mutex_lock(&shared->mutex);
  sem_post(&shared->held);
  MeteredSleep(meter, 20'000);
  pthread_mutex_unlock(&shared->mutex);
}

KEEP_FRAME void* Holder(void* argument) {
  auto* shared = static_cast<Shared*>(argument);
  Meter meter("holder");
  for (int64_t i = 0; i < shared->count; ++i) {
    Hold(&meter, shared);
    sem_wait(&shared->done);
  }
  return nullptr;
}

KEEP_FRAME void Acquire(Meter* meter, Shared* shared) {
  meter->Begin();
  pthread_mutex_lock(&shared->mutex);
  meter->End();
  pthread_mutex_unlock(&shared->mutex);
}

KEEP_FRAME void* Waiter(void* argument) {
  auto* shared = static_cast<Shared*>(argument);
  Meter meter("mutex-waiter");
  for (int64_t i = 0; i < shared->count; ++i) {
    sem_wait(&shared->held);
    Acquire(&meter, shared);
    sem_post(&shared->done);
  }
  return nullptr;
}

}  // namespace mutex

void Mutex(const Arguments& arguments) {
  mutex::Shared shared;
  shared.count = arguments.Number(0, 120);
  sem_init(&shared.held, 0, 0);
  sem_init(&shared.done, 0, 0);
  const pthread_t waiter = Start(mutex::Waiter, &shared);
  const pthread_t holder = Start(mutex::Holder, &shared);
  Join(holder);
  Join(waiter);
}

namespace poll_pipe {

struct Pipe {
  int fds[2];
  int64_t count;
};

KEEP_FRAME void PollOnce(Meter* meter, int fd) {
  pollfd item{fd, POLLIN, 0};
  meter->Begin();
  Check(poll(&item, 1, -1) == 1, "poll");
  meter->End(1);
}

KEEP_FRAME void EpollOnce(Meter* meter, int epoll) {
  epoll_event event;
  meter->Begin();
  Check(epoll_wait(epoll, &event, 1, -1) == 1, "epoll_wait");
  meter->End(2);
}

KEEP_FRAME void* Poller(void* argument) {
  const Pipe& p = *static_cast<Pipe*>(argument);
  Meter meter("poller");
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN, {}};
  Check(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, p.fds[0], &event) == 0, "epoll_ctl");
  for (int64_t i = 0; i < p.count; ++i) {
    char c;
    if (i % 2 == 0) {
      PollOnce(&meter, p.fds[0]);
    } else {
      EpollOnce(&meter, epoll);
    }
    Check(read(p.fds[0], &c, 1) == 1, "read");
  }
  close(epoll);
  return nullptr;
}

KEEP_FRAME void* Feeder(void* argument) {
  const Pipe& p = *static_cast<Pipe*>(argument);
  Meter meter("feeder");
  for (int64_t i = 0; i < p.count; ++i) {
    MeteredSleep(&meter, 20'000);
    Check(write(p.fds[1], "x", 1) == 1, "write");
  }
  return nullptr;
}

}  // namespace poll_pipe

void Poll(const Arguments& arguments) {
  poll_pipe::Pipe p;
  p.count = arguments.Number(0, 120);
  Check(pipe2(p.fds, O_CLOEXEC) == 0, "pipe2");
  const pthread_t poller = Start(poll_pipe::Poller, &p);
  const pthread_t feeder = Start(poll_pipe::Feeder, &p);
  Join(feeder);
  Join(poller);
}

namespace stuck {

KEEP_FRAME void ReadForever(Meter* meter, sem_t* entered) {
  int fds[2];
  char c;
  Check(pipe2(fds, O_CLOEXEC) == 0, "pipe2");
  meter->Publish();
  sem_post(entered);
  Check(read(fds[0], &c, 1) == 1, "read");
}

KEEP_FRAME void* Thread(void* argument) {
  Meter meter("stuck");
  ReadForever(&meter, static_cast<sem_t*>(argument));
  return nullptr;
}

// Static: the thread outlives the scenario.
sem_t entered;

}  // namespace stuck

void Stuck(const Arguments&) {
  sem_init(&stuck::entered, 0, 0);
  Start(stuck::Thread, &stuck::entered);
  sem_wait(&stuck::entered);
}

namespace deadlock {

pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
sem_t arrived, both;

struct Order {
  const char* name;
  pthread_mutex_t *first, *second;
};
Order orders[2] = {{"philosopher-1", &left, &right}, {"philosopher-2", &right, &left}};

KEEP_FRAME void TakeSecond(Meter* meter, const Order& order) {
  sem_post(&arrived);
  sem_wait(&both);
  meter->Publish();
  sem_post(&arrived);
  pthread_mutex_lock(order.second);
}

KEEP_FRAME void* Philosopher(void* argument) {
  const Order& order = *static_cast<Order*>(argument);
  Meter meter(order.name);
  pthread_mutex_lock(order.first);
  TakeSecond(&meter, order);
  return nullptr;
}

}  // namespace deadlock

void Deadlock(const Arguments&) {
  sem_init(&deadlock::arrived, 0, 0);
  sem_init(&deadlock::both, 0, 0);
  for (auto& order : deadlock::orders) Start(deadlock::Philosopher, &order);
  for (int i = 0; i < 2; ++i) sem_wait(&deadlock::arrived);
  for (int i = 0; i < 2; ++i) sem_post(&deadlock::both);
  for (int i = 0; i < 2; ++i) sem_wait(&deadlock::arrived);
}

namespace reasons {

KEEP_FRAME void Receive(Meter* meter, int fd) {
  char c;
  meter->Begin();
  Check(recv(fd, &c, 1, 0) == 1, "recv");
  meter->End();
}

KEEP_FRAME void* NetThread(void* argument) {
  Meter meter("net");
  int fds[2];
  Check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
  const int64_t count = *static_cast<int64_t*>(argument);
  // The other end is written by a child, so that one thread alone makes the whole wait.
  const pid_t child = fork();
  Check(child >= 0, "fork");
  if (child == 0) {
    for (int64_t i = 0; i < count; ++i) {
      usleep(20'000);
      if (send(fds[1], "x", 1, 0) != 1) _exit(1);
    }
    _exit(0);
  }
  for (int64_t i = 0; i < count; ++i) Receive(&meter, fds[0]);
  waitpid(child, nullptr, 0);
  close(fds[0]);
  close(fds[1]);
  return nullptr;
}

KEEP_FRAME void Reap(Meter* meter, pid_t child) {
  meter->Begin();
  Check(waitpid(child, nullptr, 0) == child, "waitpid");
  meter->End();
}

KEEP_FRAME void* ChildThread(void* argument) {
  Meter meter("child");
  for (int64_t i = *static_cast<int64_t*>(argument); i > 0; --i) {
    const pid_t child = fork();
    Check(child >= 0, "fork");
    if (child == 0) {
      usleep(20'000);
      _exit(0);
    }
    Reap(&meter, child);
  }
  return nullptr;
}

KEEP_FRAME void AwaitSignal(Meter* meter, const sigset_t& set) {
  int received;
  meter->Begin();
  Check(sigwait(&set, &received) == 0, "sigwait");
  meter->End();
}

// SIGUSR2 is blocked in every thread by Reasons().
KEEP_FRAME void* SignalThread(void* argument) {
  Meter meter("signal");
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  for (int64_t i = *static_cast<int64_t*>(argument); i > 0; --i) AwaitSignal(&meter, set);
  return nullptr;
}

constexpr size_t kPage = 4096;

struct Faults {
  int64_t count;
  int fd;
  char* memory;
};

KEEP_FRAME void Touch(Meter* meter, volatile char* page) {
  meter->Begin();
  *page = 1;
  meter->End();
}

KEEP_FRAME void* FaultThread(void* argument) {
  const Faults& faults = *static_cast<Faults*>(argument);
  Meter meter("fault");
  for (int64_t i = 0; i < faults.count; ++i) Touch(&meter, faults.memory + i * kPage);
  return nullptr;
}

// Serves each page fault of the other thread after 20 ms.
KEEP_FRAME void* FaultServer(void* argument) {
  const Faults& faults = *static_cast<Faults*>(argument);
  for (int64_t i = 0; i < faults.count; ++i) {
    uffd_msg message;
    Check(read(faults.fd, &message, sizeof(message)) == sizeof(message), "read of userfaultfd");
    usleep(20'000);
    uffdio_zeropage zero{};
    zero.range = {message.arg.pagefault.address & ~(kPage - 1), kPage};
    Check(ioctl(faults.fd, UFFDIO_ZEROPAGE, &zero) == 0, "UFFDIO_ZEROPAGE");
  }
  return nullptr;
}

}  // namespace reasons

void Reasons(const Arguments& arguments) {
  int64_t count = arguments.Number(0, 100);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);

  reasons::Faults faults{count, static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC)), nullptr};
  const size_t bytes = static_cast<size_t>(count) * reasons::kPage;
  pthread_t fault{}, server{};
  if (faults.fd >= 0) {
    uffdio_api api{};
    api.api = UFFD_API;
    Check(ioctl(faults.fd, UFFDIO_API, &api) == 0, "UFFDIO_API");
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Check(memory != MAP_FAILED, "mmap");
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    faults.memory = static_cast<char*>(memory);
    uffdio_register range{};
    range.range = {reinterpret_cast<uint64_t>(memory), bytes};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    Check(ioctl(faults.fd, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
    server = Start(reasons::FaultServer, &faults);
    fault = Start(reasons::FaultThread, &faults);
  }
  const pthread_t net = Start(reasons::NetThread, &count);
  const pthread_t child = Start(reasons::ChildThread, &count);
  const pthread_t signal = Start(reasons::SignalThread, &count);
  for (int64_t i = 0; i < count; ++i) {
    usleep(20'000);
    Check(pthread_kill(signal, SIGUSR2) == 0, "pthread_kill");
  }
  // A signal sent before the one before was taken is merged with it: send until it is done.
  while (pthread_tryjoin_np(signal, nullptr) == EBUSY) {
    usleep(20'000);
    pthread_kill(signal, SIGUSR2);
  }
  Join(net);
  Join(child);
  if (faults.fd >= 0) {
    Join(fault);
    Join(server);
  }
}

}  // namespace waiter
