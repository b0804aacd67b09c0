// Whether this process may have real-time threads.
#ifndef PROFD_TESTS_SUPPORT_REAL_TIME_H_
#define PROFD_TESTS_SUPPORT_REAL_TIME_H_

#include <sched.h>

#include <thread>

#include "daemon/base/priority.h"

namespace profd {

inline bool MayBeRealTime() {
  bool may = false;
  std::thread([&may] {
    const sched_param priority = {.sched_priority = kRealTimePriority};
    may = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
  }).join();
  return may;
}

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_REAL_TIME_H_
