// Threads that wait for objects of many kinds, one kind each.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/targets/loopback.h"
#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace objects {

constexpr int64_t kWorkUs = 20'000;
constexpr int64_t kThinkUs = 10'000;

int64_t rounds;
char directory[] = "/tmp/objectsXXXXXX";
// In the directory. Their names hold an escape sequence and a line break.
char socket_path[64], fifo_path[64];
int tcp_listener, acked_listener, unix_listener, idle_listener;
uint16_t tcp_port, acked_port, idle_port;
int pipe_ends[2], fifo, event, timer, set;

KEEP_FRAME void ReadOnce(Meter* meter, int fd) {
  uint64_t word = 0;
  meter->Begin();
  Check(read(fd, &word, sizeof(word)) > 0, "read");
  meter->End();
}

void Send(int fd) {
  const uint64_t word = 1;
  Check(write(fd, &word, sizeof(word)) == sizeof(word), "write");
}

int ConnectTo(uint16_t port) {
  const int fd = ConnectToLoopback(port);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

sockaddr_un UnixAddress() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
  return address;
}

int ListenOnUnix() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = UnixAddress();
  Check(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
            listen(fd, 8) == 0,
        "listen on a path");
  return fd;
}

int ConnectToUnix() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = UnixAddress();
  Check(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
        "connect to a path");
  return fd;
}

// Whether TCP acknowledges what was read at once. Else it does so with the next data, or 40 ms
// later.
enum class Acks { kLate, kAtOnce };

void Acknowledge(int fd, Acks acks) {
  const int on = 1;
  if (acks == Acks::kAtOnce) {
    Check(setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on)) == 0, "TCP_QUICKACK");
  }
}

// Answers each request after a while.
void Serve(const char* name, int listener, int64_t requests, Acks acks = Acks::kLate) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  Check(fd >= 0, "accept");
  Meter meter(name);
  for (int64_t i = 0; i < requests; ++i) {
    ReadOnce(&meter, fd);
    Acknowledge(fd, acks);
    MeteredSleep(&meter, kWorkUs, 1);
    Send(fd);
  }
  close(fd);
}

void Ask(Meter* meter, int fd, Acks acks = Acks::kLate) {
  Send(fd);
  ReadOnce(meter, fd);
  Acknowledge(fd, acks);
  MeteredSleep(meter, kThinkUs, 1);
}

KEEP_FRAME void* TcpServer(void*) {
  Serve("tcp-server", tcp_listener, rounds);
  return nullptr;
}

KEEP_FRAME void* TcpClient(void*) {
  const int fd = ConnectTo(tcp_port);
  Meter meter("tcp-client");
  for (int64_t i = 0; i < rounds; ++i) Ask(&meter, fd);
  close(fd);
  return nullptr;
}

KEEP_FRAME void* AckedServer(void*) {
  Serve("acked-server", acked_listener, rounds, Acks::kAtOnce);
  return nullptr;
}

KEEP_FRAME void* AckedClient(void*) {
  const int fd = ConnectTo(acked_port);
  Meter meter("acked-client");
  for (int64_t i = 0; i < rounds; ++i) Ask(&meter, fd, Acks::kAtOnce);
  close(fd);
  return nullptr;
}

KEEP_FRAME void* UnixServer(void*) {
  Serve("unix-server", unix_listener, rounds);
  return nullptr;
}

KEEP_FRAME void* UnixClient(void*) {
  const int fd = ConnectToUnix();
  Meter meter("unix-client");
  for (int64_t i = 0; i < rounds; ++i) Ask(&meter, fd);
  close(fd);
  return nullptr;
}

// A connection of its own, polled for the reply, beside one that is idle in an epoll set.
uint16_t polled_port;
int polled_listener;

KEEP_FRAME void* PolledServer(void*) {
  Serve("polled-server", polled_listener, rounds);
  return nullptr;
}

KEEP_FRAME void* PollClient(void*) {
  const int fd = ConnectTo(polled_port);
  Meter meter("poll-client");
  for (int64_t i = 0; i < rounds; ++i) {
    Send(fd);
    pollfd polled = {.fd = fd, .events = POLLIN, .revents = 0};
    meter.Begin();
    Check(poll(&polled, 1, -1) == 1, "poll");
    meter.End();
    uint64_t word;
    Check(read(fd, &word, sizeof(word)) == sizeof(word), "read");
    MeteredSleep(&meter, kThinkUs, 1);
  }
  close(fd);
  return nullptr;
}

KEEP_FRAME void* PipeReader(void*) {
  Meter meter("pipe-reader");
  for (int64_t i = 0; i < rounds; ++i) ReadOnce(&meter, pipe_ends[0]);
  return nullptr;
}

KEEP_FRAME void* FifoReader(void*) {
  Meter meter("fifo-reader");
  for (int64_t i = 0; i < rounds; ++i) ReadOnce(&meter, fifo);
  return nullptr;
}

KEEP_FRAME void* EventReader(void*) {
  Meter meter("event-reader");
  for (int64_t i = 0; i < rounds; ++i) ReadOnce(&meter, event);
  return nullptr;
}

KEEP_FRAME void* TimerReader(void*) {
  Meter meter("timer-reader");
  for (int64_t i = 0; i < rounds; ++i) ReadOnce(&meter, timer);
  return nullptr;
}

KEEP_FRAME void* Feeder(void*) {
  Meter meter("feeder");
  for (int64_t i = 0; i < rounds; ++i) {
    MeteredSleep(&meter, kWorkUs);
    Send(pipe_ends[1]);
    Send(fifo);
    Send(event);
  }
  return nullptr;
}

KEEP_FRAME void* Acceptor(void*) {
  Meter meter("acceptor");
  meter.Begin();
  Check(accept4(idle_listener, nullptr, nullptr, SOCK_CLOEXEC) >= 0, "accept");
  meter.End();
  return nullptr;
}

// Of three sockets, an eventfd and a timerfd only the timer has anything to say.
KEEP_FRAME void* Epoller(void*) {
  set = epoll_create1(EPOLL_CLOEXEC);
  int pair[2];
  Check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
  const int other = eventfd(0, EFD_CLOEXEC), tick = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const itimerspec every = {.it_interval = {.tv_sec = 0, .tv_nsec = kWorkUs * 1000},
                            .it_value = {.tv_sec = 0, .tv_nsec = kWorkUs * 1000}};
  Check(timerfd_settime(tick, 0, &every, nullptr) == 0, "timerfd_settime");
  for (const int fd : {pair[0], pair[1], idle_listener, other, tick}) {
    epoll_event wanted = {.events = EPOLLIN, .data = {.fd = fd}};
    Check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted) == 0, "epoll_ctl");
  }
  Meter meter("epoller");
  for (int64_t i = 0; i < rounds; ++i) {
    epoll_event event_of_set;
    meter.Begin();
    Check(epoll_wait(set, &event_of_set, 1, -1) == 1, "epoll_wait");
    meter.End();
    uint64_t word;
    Check(read(tick, &word, sizeof(word)) == sizeof(word), "read a timer");
  }
  return nullptr;
}

KEEP_FRAME void* Parent(void*) {
  Meter meter("parent");
  const int named = eventfd(0, EFD_CLOEXEC);
  for (int64_t i = 0; i < rounds; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_NAME, "napping");
      Send(named);
      usleep(kWorkUs);
      _exit(0);
    }
    uint64_t word;
    Check(read(named, &word, sizeof(word)) == sizeof(word), "read");
    int status;
    meter.Begin();
    Check(waitpid(child, &status, 0) == child, "waitpid");
    meter.End();
  }
  return nullptr;
}

}  // namespace objects

void Objects(const Arguments& arguments) {
  using namespace objects;  // NOLINT: short
  rounds = arguments.Number(0, 100);
  Check(mkdtemp(directory) != nullptr, "mkdtemp");
  snprintf(socket_path, sizeof(socket_path), "%s/so\x1b[31mck\n", directory);
  snprintf(fifo_path, sizeof(fifo_path), "%s/fi\x1b[31mfo\n", directory);
  Check(mkfifo(fifo_path, 0600) == 0, "mkfifo");
  fifo = open(fifo_path, O_RDWR | O_CLOEXEC);
  Check(fifo >= 0, "open a FIFO");
  Check(pipe2(pipe_ends, O_CLOEXEC) == 0, "pipe2");
  // Each of the feeder's ones is a read, however late.
  event = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const itimerspec every = {.it_interval = {.tv_sec = 0, .tv_nsec = kWorkUs * 1000},
                            .it_value = {.tv_sec = 0, .tv_nsec = kWorkUs * 1000}};
  Check(timerfd_settime(timer, 0, &every, nullptr) == 0, "timerfd_settime");
  tcp_listener = ListenOnLoopback(&tcp_port);
  acked_listener = ListenOnLoopback(&acked_port);
  polled_listener = ListenOnLoopback(&polled_port);
  idle_listener = ListenOnLoopback(&idle_port);
  unix_listener = ListenOnUnix();
  const pthread_t acceptor = Start(Acceptor);
  void* (*const bodies[])(void*) = {TcpServer,   TcpClient,    AckedServer, AckedClient, UnixServer,
                                    UnixClient,  PolledServer, PollClient,  PipeReader,  FifoReader,
                                    EventReader, TimerReader,  Epoller,     Parent,      Feeder};
  pthread_t threads[sizeof(bodies) / sizeof(bodies[0])];
  size_t started = 0;
  for (auto* const body : bodies) threads[started++] = Start(body);
  for (const pthread_t thread : threads) Join(thread);
  close(ConnectTo(idle_port));
  Join(acceptor);
  struct stat pipe_file;
  Check(fstat(pipe_ends[0], &pipe_file) == 0, "fstat");
  unlink(socket_path);
  unlink(fifo_path);
  rmdir(directory);
  char where[400];
  snprintf(
      where, sizeof(where),
      "waited {\"pid\": %d, \"directory\": \"%s\", \"tcp\": %d, \"acked\": %d, \"polled\": %d, "
      "\"idle\": %d, \"pipe\": %llu, \"event\": %d, \"timer\": %d}",
      getpid(), directory, tcp_port, acked_port, polled_port, idle_port,
      static_cast<unsigned long long>(pipe_file.st_ino), event, timer);
  Stop(where);
}

}  // namespace waiter
