#include "tests/system/harness/subprocess.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace profd::e2e {
namespace {

struct Pipe {
  UniqueFd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus("pipe2", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Runs in the child between fork and exec: system calls only.
[[noreturn]] void Become(char* const* argv, char* const* environment, const char* directory,
                         const passwd* user, int in, int out, int err, int failed) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  bool ok = dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2;
  if (ok && user != nullptr) {
    ok = setgroups(1, &user->pw_gid) == 0 && setgid(user->pw_gid) == 0 && setuid(user->pw_uid) == 0;
    // A change of identity clears the death signal.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  if (ok && *directory != '\0') ok = chdir(directory) == 0;
  if (ok) execvpe(argv[0], argv, environment);
  const int error = errno;
  [[maybe_unused]] ssize_t n = write(failed, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Start(const Command& command) {
  ASSIGN_OR_RETURN(Pipe in, MakePipe());
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  ASSIGN_OR_RETURN(Pipe failed, MakePipe());
  const passwd* user = nullptr;
  if (!command.user.empty()) {
    user = getpwnam(command.user.c_str());
    if (user == nullptr) return absl::NotFoundError(absl::StrCat("no user ", command.user));
  }
  std::vector<char*> argv;
  for (const std::string& part : command.argv) argv.push_back(const_cast<char*>(part.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> added;
  std::vector<char*> environment;
  for (const auto& [name, value] : command.environment) {
    added.push_back(absl::StrCat(name, "=", value));
  }
  for (std::string& entry : added) environment.push_back(entry.data());
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  environment.push_back(nullptr);

  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("fork", errno);
  if (pid == 0) {
    Become(argv.data(), environment.data(), command.directory.c_str(), user, in.read.get(),
           out.write.get(), err.write.get(), failed.write.get());
  }
  setpgid(pid, pid);
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  failed.write.reset();
  int error = 0;
  if (read(failed.read.get(), &error, sizeof(error)) == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    return absl::NotFoundError(
        absl::StrCat("cannot execute ", absl::StrJoin(command.argv, " "), ": ", strerror(error)));
  }
  return std::unique_ptr<Subprocess>(new Subprocess(pid, std::move(pidfd), std::move(in.write),
                                                    std::move(out.read), std::move(err.read),
                                                    UniqueFd(eventfd(0, EFD_CLOEXEC))));
}

Subprocess::Subprocess(pid_t pid, UniqueFd pidfd, UniqueFd in, UniqueFd out, UniqueFd err,
                       UniqueFd stop)
    : pid_(pid), pidfd_(std::move(pidfd)), stdin_(std::move(in)), stop_(std::move(stop)) {
  signal(SIGPIPE, SIG_IGN);
  channels_[0].fd = std::move(out);
  channels_[1].fd = std::move(err);
  reader_ = std::thread([this] { ReadLoop(); });
}

Subprocess::~Subprocess() {
  kill(-pid_, SIGKILL);
  if (!exit_) Wait(seconds(30));
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_.get(), &one, sizeof(one));
  reader_.join();
}

void Subprocess::ReadLoop() {
  while (true) {
    pollfd items[3] = {{stop_.get(), POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}};
    {
      std::lock_guard lock(mutex_);
      for (int i = 0; i < 2; ++i) {
        if (!channels_[i].ended) items[i + 1].fd = channels_[i].fd.get();
      }
    }
    if (items[1].fd < 0 && items[2].fd < 0) return;
    if (poll(items, 3, -1) < 0) continue;
    for (int i = 0; i < 2; ++i) {
      if ((items[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      char data[65536];
      // This does not block: there is data, or the end. Under the lock, so that for IsRead data is
      // either in the pipe or in `all`.
      std::lock_guard lock(mutex_);
      const ssize_t n = read(items[i + 1].fd, data, sizeof(data));
      if (n > 0) {
        channels_[i].all.append(data, static_cast<size_t>(n));
      } else {
        channels_[i].ended = true;
      }
      changed_.notify_all();
    }
    if ((items[0].revents & POLLIN) != 0) return;
  }
}

std::optional<std::string> Subprocess::NextLine(Stream stream, milliseconds timeout) {
  Channel& channel = channels_[static_cast<int>(stream)];
  std::unique_lock lock(mutex_);
  size_t newline = std::string::npos;
  changed_.wait_for(lock, timeout, [&] {
    newline = channel.all.find('\n', channel.taken);
    return newline != std::string::npos || channel.ended;
  });
  if (newline == std::string::npos) return std::nullopt;
  std::string line = channel.all.substr(channel.taken, newline - channel.taken);
  channel.taken = newline + 1;
  return line;
}

std::optional<std::string> Subprocess::LineWith(Stream stream, std::string_view text,
                                                milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    std::optional<std::string> line = NextLine(stream, std::max(left, milliseconds(0)));
    if (!line || line->find(text) != std::string::npos) return line;
  }
}

bool Subprocess::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(stdin_.get(), text.data(), text.size());
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void Subprocess::Signal(int signal) const {
  if (!exit_) kill(pid_, signal);
}

std::optional<int> Subprocess::Wait(milliseconds timeout) {
  if (exit_) return exit_;
  pollfd item{pidfd_.get(), POLLIN, 0};
  if (poll(&item, 1, static_cast<int>(timeout.count())) <= 0) return std::nullopt;
  int status = 0;
  rusage usage{};
  if (wait4(pid_, &status, 0, &usage) != pid_) return std::nullopt;
  const auto ns = [](const timeval& t) {
    return int64_t{t.tv_sec} * 1'000'000'000 + int64_t{t.tv_usec} * 1000;
  };
  cpu_ns_ = ns(usage.ru_utime) + ns(usage.ru_stime);
  exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_;
}

bool Subprocess::IsRead() const {
  std::lock_guard lock(mutex_);
  return std::ranges::all_of(channels_, [](const Channel& channel) {
    int waiting = 0;
    return channel.ended || ioctl(channel.fd.get(), FIONREAD, &waiting) != 0 || waiting == 0;
  });
}

std::string Subprocess::Output(Stream stream) const {
  std::lock_guard lock(mutex_);
  return channels_[static_cast<int>(stream)].all;
}

absl::StatusOr<Finished> RunToEnd(const Command& command, milliseconds timeout) {
  ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Start(command));
  process->CloseStdin();
  const std::optional<int> code = process->Wait(timeout);
  // A daemonised descendant may hold the pipes open: their end is not waited for.
  while (code && !process->IsRead()) std::this_thread::sleep_for(milliseconds(1));
  std::string out = process->Output(Subprocess::Stream::kStdout);
  std::string err = process->Output(Subprocess::Stream::kStderr);
  if (!code) {
    return absl::DeadlineExceededError(
        absl::StrCat(absl::StrJoin(command.argv, " "), " still runs; it said: ", out, err));
  }
  return Finished{*code, std::move(out), std::move(err)};
}

TemporaryDirectory::TemporaryDirectory() {
  const char* base = getenv("TMPDIR");
  path_ = absl::StrCat(base != nullptr ? base : "/tmp", "/profd-e2e-XXXXXX");
  if (mkdtemp(path_.data()) == nullptr) path_.clear();
  chmod(path_.c_str(), 0711);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace profd::e2e
