// A child process of a test that does what the test says, step by step.
#ifndef PROFD_TESTS_BPF_CHILD_H_
#define PROFD_TESTS_BPF_CHILD_H_

#include <sys/types.h>

#include <functional>

namespace profd {

// One byte a step, by pipes: nobody sleeps to wait for the other.
class Child {
 public:
  // Runs `body` in a process of its own, which ends with it, or with this object.
  explicit Child(const std::function<void(Child&)>& body);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // On either side: lets the other go on, or waits until it says so. A side that is left alone
  // aborts the wait: the child ends, the test fails.
  void Signal() const;
  void Wait() const;
  // In the parent: until the child's first thread sleeps. A side that says something still runs.
  void AwaitSleep() const;

  pid_t pid() const { return pid_; }

 private:
  int read_ = -1, write_ = -1;
  pid_t pid_ = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_BPF_CHILD_H_
