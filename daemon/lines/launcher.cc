#include "daemon/lines/launcher.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "daemon/base/own_process.h"
#include "daemon/lines/descriptor_message.h"
#include "daemon/lines/worker.h"

namespace profd {
namespace {

absl::Status MakePair(UniqueFd* one, UniqueFd* other) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus("make a socket for the reader of debug info", errno);
  }
  one->reset(ends[0]);
  other->reset(ends[1]);
  return absl::OkStatus();
}

// As if it had been executed anew.
void ResetSignals() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD, SIGALRM}) {
    signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void RunWorker(UniqueFd socket, const WorkerLimits& limits) {
  if (GiveUpPrivileges(socket.get()).ok()) ServeLines(socket.get(), limits);
  _exit(0);
}

// A worker is a child of profd, which can wait for it and learn what it used.
[[noreturn]] void RunLauncher(UniqueFd control, const WorkerLimits& limits) {
  ResetSignals();
  prctl(PR_SET_NAME, kLineProcessName);
  if (!GiveUpPrivileges(control.get()).ok()) _exit(1);
  for (;;) {
    uint8_t order = 0;
    UniqueFd socket;
    if (ReceiveWithDescriptor(control.get(), {&order, 1}, &socket) <= 0) _exit(0);
    const auto worker = static_cast<int32_t>(
        syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (worker == 0) RunWorker(std::move(socket), limits);
    uint8_t reply[sizeof(worker)];
    std::memcpy(reply, &worker, sizeof(worker));
    if (!SendWithDescriptor(control.get(), reply, -1)) _exit(0);
  }
}

int64_t CpuNs(const rusage& use) {
  const auto ns = [](const timeval& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1000;
  };
  return ns(use.ru_utime) + ns(use.ru_stime);
}

}  // namespace

LineWorker::LineWorker(LineWorker&& other) noexcept
    : socket_(std::move(other.socket_)), pid_(std::exchange(other.pid_, 0)) {}

LineWorker& LineWorker::operator=(LineWorker&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(pid_, other.pid_);
  return *this;
}

int64_t LineWorker::Stop() {
  socket_.reset();
  if (pid_ <= 0) return 0;
  kill(pid_, SIGKILL);
  rusage use{};
  pid_t waited = -1;
  do {
    waited = wait4(pid_, nullptr, 0, &use);
  } while (waited < 0 && errno == EINTR);
  pid_ = 0;
  return waited < 0 ? 0 : CpuNs(use);
}

absl::StatusOr<LineLauncher> LineLauncher::Start(const WorkerLimits& limits) {
  UniqueFd ours;
  UniqueFd theirs;
  RETURN_IF_ERROR(MakePair(&ours, &theirs));
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("start the reader of debug info", errno);
  if (pid == 0) {
    ours.reset();
    RunLauncher(std::move(theirs), limits);
  }
  return LineLauncher(std::move(ours), pid);
}

LineLauncher::LineLauncher(LineLauncher&& other) noexcept
    : socket_(std::move(other.socket_)),
      pid_(std::exchange(other.pid_, 0)),
      ordered_(std::move(other.ordered_)) {}

LineLauncher::~LineLauncher() {
  socket_.reset();
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<std::optional<LineWorker>> LineLauncher::Launch(std::chrono::milliseconds patience) {
  const absl::Status gone = absl::UnavailableError("the process that starts readers has ended");
  if (!ordered_.ok()) {
    UniqueFd ours;
    UniqueFd theirs;
    RETURN_IF_ERROR(MakePair(&ours, &theirs));
    const uint8_t order = 1;
    if (!SendWithDescriptor(socket_.get(), {&order, 1}, theirs.get())) return gone;
    ordered_ = std::move(ours);
  }
  pollfd poll_for = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  const int ready = poll(&poll_for, 1, static_cast<int>(patience.count()));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  UniqueFd socket = std::move(ordered_);
  uint8_t reply[sizeof(int32_t)];
  if (ready < 0 || ReceiveWithDescriptor(socket_.get(), reply, nullptr) != sizeof(reply)) {
    return gone;
  }
  int32_t pid = 0;
  std::memcpy(&pid, reply, sizeof(pid));
  if (pid <= 0) return absl::UnavailableError("no process can be started to read debug info");
  return LineWorker(std::move(socket), pid);
}

}  // namespace profd
