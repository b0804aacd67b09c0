// Locks that are system calls: another process holds one, and nobody gives the other.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace kernel_locks {

constexpr int64_t kHeldUs = 20'000;
constexpr int64_t kPatienceNs = 10'000'000;

int64_t rounds;
std::string path;
int held[2], done[2];  // pipes
int set;

int Open() {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  Check(fd >= 0, "open");
  return fd;
}

KEEP_FRAME void HoldFile(int fd) {
  Check(flock(fd, LOCK_EX) == 0, "flock");
  Check(write(held[1], "x", 1) == 1, "write");
  usleep(kHeldUs);
  Check(flock(fd, LOCK_UN) == 0, "unlock");
}

// A process of its own. A lock is that of an open file, so it opens the file itself.
KEEP_FRAME void Holder() {
  prctl(PR_SET_NAME, "file-holder");
  const int fd = Open();
  for (int64_t i = 0; i < rounds; ++i) {
    char c;
    HoldFile(fd);
    Check(read(done[0], &c, 1) == 1, "read");
  }
}

KEEP_FRAME void TakeFile(Meter* meter, int fd) {
  meter->Begin();
  Check(flock(fd, LOCK_EX) == 0, "flock");
  meter->End();
  Check(flock(fd, LOCK_UN) == 0, "unlock");
}

KEEP_FRAME void* FileWaiter(void*) {
  Meter meter("file-waiter");
  meter.CountDelay();
  const int fd = Open();
  for (int64_t i = 0; i < rounds; ++i) {
    char c;
    Check(read(held[0], &c, 1) == 1, "read");
    TakeFile(&meter, fd);
    Check(write(done[1], "x", 1) == 1, "write");
  }
  return nullptr;  // the file stays open: profd names it when it is asked
}

KEEP_FRAME void TakeSet(Meter* meter) {
  sembuf take{0, -1, 0};
  const timespec patience{0, kPatienceNs};
  meter->Begin();
  Check(semtimedop(set, &take, 1, &patience) < 0 && errno == EAGAIN, "semtimedop");
  meter->End();
}

KEEP_FRAME void* SetWaiter(void*) {
  Meter meter("set-waiter");
  meter.CountDelay();
  for (int64_t i = 0; i < rounds; ++i) TakeSet(&meter);
  return nullptr;
}

}  // namespace kernel_locks

void KernelLocks(const Arguments& arguments) {
  using namespace kernel_locks;  // NOLINT: short
  // Where the scheduler has a clock for each CPU, a wait that begins on one CPU and ends on another
  // is measured by two clocks.
  StayOnOneCpu();
  rounds = arguments.Number(0, 100);
  const char* directory = arguments.Text(1);
  path = std::string(*directory ? directory : ".") + "/kernel-locks-XXXXXX";
  const int file = mkstemp(path.data());
  Check(file >= 0, "mkstemp");
  close(file);
  Check(pipe2(held, O_CLOEXEC) == 0 && pipe2(done, O_CLOEXEC) == 0, "pipe2");
  set = semget(IPC_PRIVATE, 1, 0600);
  Check(set >= 0, "semget");
  const pid_t child = fork();
  Check(child >= 0, "fork");
  if (child == 0) {
    Holder();
    _exit(0);
  }
  const pthread_t file_waiter = Start(FileWaiter);
  const pthread_t set_waiter = Start(SetWaiter);
  Join(file_waiter);
  Join(set_waiter);
  Check(waitpid(child, nullptr, 0) == child, "waitpid");
  semctl(set, 0, IPC_RMID);
  const std::string where =
      "waited {\"file\": \"" + path + "\", \"set\": " + std::to_string(set) + "}";
  Stop(where.c_str());
}

}  // namespace waiter
