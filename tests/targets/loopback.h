// TCP connections of a target program with itself.
#ifndef PROFD_TESTS_TARGETS_LOOPBACK_H_
#define PROFD_TESTS_TARGETS_LOOPBACK_H_

#include <cstdint>

namespace waiter {

// A socket that listens, and the port that the kernel chose.
int ListenOnLoopback(uint16_t* port);
int ConnectToLoopback(uint16_t port);

}  // namespace waiter

#endif  // PROFD_TESTS_TARGETS_LOOPBACK_H_
