// For processes that tests fork.
#ifndef PROFD_TESTS_SUPPORT_END_WITH_H_
#define PROFD_TESTS_SUPPORT_END_WITH_H_

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace profd {

// In a process that was just forked: it ends with `parent`, even if that has ended already.
inline void EndWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
}

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_END_WITH_H_
