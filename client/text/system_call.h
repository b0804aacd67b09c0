// Names of system calls in which threads wait (x86-64).
#ifndef PROFD_CLIENT_TEXT_SYSTEM_CALL_H_
#define PROFD_CLIENT_TEXT_SYSTEM_CALL_H_

#include <cstdint>
#include <string>

namespace profctl {

// "futex", or "system call 500" if it has no name here.
std::string SystemCallName(int32_t number);

}  // namespace profctl

#endif  // PROFD_CLIENT_TEXT_SYSTEM_CALL_H_
