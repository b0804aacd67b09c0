#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace slow_pipe {

constexpr size_t kBytes = 4 << 20;

struct Pipe {
  int fds[2];
  int64_t count;
};

KEEP_FRAME void WriteAll(Meter* meter, int fd, const std::vector<char>& data) {
  meter->Begin();
  Check(write(fd, data.data(), data.size()) == static_cast<ssize_t>(data.size()), "write");
  meter->End();
}

KEEP_FRAME void* Writer(void* argument) {
  const Pipe& p = *static_cast<Pipe*>(argument);
  Meter meter("pipe-writer");
  const std::vector<char> data(kBytes, 'x');
  for (int64_t i = 0; i < p.count; ++i) WriteAll(&meter, p.fds[1], data);
  return nullptr;
}

// 64 KiB, the pipe's whole content, every 10 ms.
KEEP_FRAME void* Reader(void* argument) {
  const Pipe& p = *static_cast<Pipe*>(argument);
  Meter meter("pipe-reader");
  std::vector<char> data(64 << 10);
  for (size_t left = kBytes * static_cast<size_t>(p.count); left > 0;) {
    MeteredSleep(&meter, 10'000);
    const ssize_t n = read(p.fds[0], data.data(), data.size());
    Check(n > 0, "read");
    left -= static_cast<size_t>(n);
  }
  return nullptr;
}

}  // namespace slow_pipe

void SlowPipe(const Arguments& arguments) {
  slow_pipe::Pipe p;
  p.count = arguments.Number(0, 4);
  Check(pipe2(p.fds, O_CLOEXEC) == 0, "pipe2");
  const pthread_t writer = Start(slow_pipe::Writer, &p);
  const pthread_t reader = Start(slow_pipe::Reader, &p);
  Join(writer);
  Join(reader);
}

namespace fsync_loop {

struct Plan {
  int64_t ms;
  int fd;
};

KEEP_FRAME void Flush(Meter* meter, int fd) {
  meter->Begin();
  Check(fsync(fd) == 0, "fsync");
  meter->End();
}

KEEP_FRAME void* Thread(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  Meter meter("fsyncer");
  const std::vector<char> data(4096, 'x');
  const int64_t end = Now() + plan.ms * 1'000'000;
  while (Now() < end) {
    Check(write(plan.fd, data.data(), data.size()) == 4096, "write");
    Flush(&meter, plan.fd);
  }
  return nullptr;
}

}  // namespace fsync_loop

void Fsync(const Arguments& arguments) {
  const char* directory = arguments.Text(1);
  std::string path = std::string(*directory ? directory : ".") + "/waiter-XXXXXX";
  fsync_loop::Plan plan{arguments.Number(0, 2000), mkstemp(path.data())};
  Check(plan.fd >= 0, "mkstemp");
  Check(unlink(path.c_str()) == 0, "unlink");
  Join(Start(fsync_loop::Thread, &plan));
  close(plan.fd);
}

}  // namespace waiter
