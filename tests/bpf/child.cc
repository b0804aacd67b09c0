#include "tests/bpf/child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/end_with.h"

namespace profd {

Child::Child(const std::function<void(Child&)>& body) {
  int to_child[2], to_parent[2];
  if (pipe(to_child) != 0 || pipe(to_parent) != 0) abort();
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) abort();
  if (pid_ == 0) {
    EndWith(parent);
    close(to_child[1]);
    close(to_parent[0]);
    read_ = to_child[0];
    write_ = to_parent[1];
    body(*this);
    _exit(0);
  }
  close(to_child[0]);
  close(to_parent[1]);
  read_ = to_parent[0];
  write_ = to_child[1];
}

Child::~Child() {
  close(read_);
  close(write_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Child::Signal() const {
  if (write(write_, "x", 1) != 1 && pid_ == 0) _exit(0);
}

void Child::Wait() const {
  char byte;
  if (read(read_, &byte, 1) == 1) return;
  if (pid_ == 0) _exit(0);
  ADD_FAILURE() << "the child process has ended";
}

void Child::AwaitSleep() const {
  const std::string path = "/proc/" + std::to_string(pid_) + "/stat";
  for (int attempt = 0; attempt < 60'000; ++attempt) {
    std::ifstream stat(path);
    std::string line;
    std::getline(stat, line);
    // "PID (NAME) STATE ..."
    const size_t end = line.rfind(')');
    if (end != std::string::npos && line.compare(end, 3, ") S") == 0) return;
    usleep(1'000);
  }
  ADD_FAILURE() << "the child process does not come to rest";
}

}  // namespace profd
