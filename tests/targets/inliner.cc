// A thread sleeps in a function that is inlined into another one. Built with its debug info in
// other files. Says "ready PID", waits for a line on stdin, sleeps for four seconds, says what it
// is, and stays until stdin is closed.
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <thread>

namespace inliner {

constexpr int kInnerLine = __LINE__ + 1;
[[gnu::always_inline]] inline void Inner(const timespec& time) { nanosleep(&time, nullptr); }

constexpr int kOuterLine = __LINE__ + 4;
[[gnu::noinline]] void Outer() {
  const timespec time{.tv_sec = 0, .tv_nsec = 20'000'000};
  for (int i = 0; i < 200; ++i) {
    Inner(time);
  }
}

bool AwaitLine() {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1) {
    if (byte == '\n') return true;
  }
  return false;
}

}  // namespace inliner

int main() {
  printf("ready %d\n", getpid());
  fflush(stdout);
  if (!inliner::AwaitLine()) return 0;
  std::thread(inliner::Outer).join();
  printf("{\"pid\": %d, \"inner\": %d, \"outer\": %d}\n", getpid(), inliner::kInnerLine,
         inliner::kOuterLine);
  fflush(stdout);
  while (inliner::AwaitLine()) {
  }
}
