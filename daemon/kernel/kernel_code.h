// Where code of the kernel lies by which programs tell what happened.
#ifndef PROFD_DAEMON_KERNEL_KERNEL_CODE_H_
#define PROFD_DAEMON_KERNEL_KERNEL_CODE_H_

#include <cstdint>
#include <istream>

#include "daemon/base/code_range.h"

namespace profd {

struct KernelCode {
  CodeRange interrupts;  // by which interrupts enter the kernel; exceptions enter by code before it
  CodeRange timeout;     // the function that ends a wait at its deadline
  CodeRange signal;      // the function that ends a wait for a signal
  CodeRange scheduler;   // the functions that give up a CPU, which the kernel leaves out of its own
                         // stacks of tasks
};

// Finds it in a list of symbols as in /proc/kallsyms.
KernelCode FindKernelCode(std::istream& symbols);

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_KERNEL_CODE_H_
