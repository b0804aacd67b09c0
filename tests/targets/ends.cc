// Threads that wait for pipes and connections whose other ends other processes have.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tests/targets/loopback.h"
#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace ends {

constexpr int64_t kWorkUs = 20'000;
// Between starts: sleeps that all end in one interrupt leave the kernel no memory for their wakers.
constexpr int64_t kStepUs = 2'600;
constexpr int kCrowd = 3, kMostDescriptors = 256;

struct Pipe {
  int reads = -1, writes = -1;
  unsigned long long inode = 0;
};

Pipe MakePipe() {
  int both[2];
  Check(pipe2(both, O_CLOEXEC) == 0, "pipe2");
  struct stat file;
  Check(fstat(both[0], &file) == 0, "fstat");
  return {
      .reads = both[0], .writes = both[1], .inode = static_cast<unsigned long long>(file.st_ino)};
}

// A process of this name that has these descriptors alone. It ends with its parent.
template <typename Body>
pid_t Fork(const char* name, int one, int other, Body body) {
  const pid_t child = fork();
  Check(child >= 0, "fork");
  if (child > 0) {
    usleep(kStepUs);
    return child;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, name);
  for (int fd = 3; fd < kMostDescriptors; ++fd) {
    if (fd != one && fd != other) close(fd);
  }
  body();
  _exit(0);
}

KEEP_FRAME void ReadForGood(int fd) {
  char bytes[4096];
  while (read(fd, bytes, sizeof(bytes)) > 0) {
  }
}

KEEP_FRAME void WriteForGood(int fd) {
  const char bytes[4096] = {};
  while (write(fd, bytes, sizeof(bytes)) > 0) {
  }
}

void Make(int fd) {
  while (write(fd, "x", 1) == 1) usleep(kWorkUs);
}

void Drain(int fd) {
  char bytes[4096];
  while (read(fd, bytes, sizeof(bytes)) > 0) usleep(kWorkUs);
}

void Serve(int listener) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  Check(fd >= 0, "accept");
  char c;
  while (read(fd, &c, 1) == 1) {
    usleep(kWorkUs);
    Check(write(fd, &c, 1) == 1, "write");
  }
}

KEEP_FRAME void AskForGood(uint16_t port) {
  const int fd = ConnectToLoopback(port);
  char c = 'x';
  do {
    usleep(kWorkUs);  // the server waits, too
    Check(write(fd, &c, 1) == 1, "write");
  } while (read(fd, &c, 1) == 1);
}

Pipe made, drained, shared, crowded;
int listener, lazy_listener;
uint16_t port, lazy_port;

void* Reader(void*) {
  prctl(PR_SET_NAME, "end-reader");
  ReadForGood(made.reads);
  return nullptr;
}
void* Writer(void*) {
  prctl(PR_SET_NAME, "end-writer");
  WriteForGood(drained.writes);
  return nullptr;
}
void* CrowdReader(void*) {
  prctl(PR_SET_NAME, "end-crowd");
  ReadForGood(crowded.reads);
  return nullptr;
}
void* Client(void*) {
  prctl(PR_SET_NAME, "end-client");
  AskForGood(port);
  return nullptr;
}
// Nobody accepts its connection.
void* EarlyClient(void*) {
  prctl(PR_SET_NAME, "end-early");
  AskForGood(lazy_port);
  return nullptr;
}

}  // namespace ends

void Ends(const Arguments&) {
  using namespace ends;  // NOLINT: short
  made = MakePipe();
  drained = MakePipe();
  shared = MakePipe();
  crowded = MakePipe();
  listener = ListenOnLoopback(&port);
  lazy_listener = ListenOnLoopback(&lazy_port);
  const pid_t maker = Fork("end-maker", made.writes, -1, [] { Make(made.writes); });
  const pid_t drain = Fork("end-drain", drained.reads, -1, [] { Drain(drained.reads); });
  // Both processes keep both ends.
  const pid_t twin =
      Fork("end-twin", shared.reads, shared.writes, [] { ReadForGood(shared.reads); });
  const pid_t server = Fork("end-server", listener, -1, [] { Serve(listener); });
  const pid_t lazy = Fork("end-lazy", lazy_listener, -1, [] { pause(); });
  for (int i = 0; i < kCrowd; ++i) {
    Fork("end-makers", crowded.writes, -1, [] { Make(crowded.writes); });
  }
  for (const int fd : {made.writes, drained.reads, crowded.writes, listener, lazy_listener}) {
    close(fd);
  }
  for (auto* const body : {Reader, Writer, CrowdReader, Client, EarlyClient}) {
    Start(body);
    usleep(kStepUs);
  }
  char where[400];
  snprintf(where, sizeof(where),
           "ends {\"pid\": %d, \"maker\": %d, \"drain\": %d, \"twin\": %d, \"server\": %d, "
           "\"lazy\": %d, \"made\": %llu, \"drained\": %llu, \"shared\": %llu, \"crowded\": %llu, "
           "\"port\": %d, \"lazy_port\": %d}",
           getpid(), maker, drain, twin, server, lazy, made.inode, drained.inode, shared.inode,
           crowded.inode, port, lazy_port);
  Stop(where);
}

}  // namespace waiter
