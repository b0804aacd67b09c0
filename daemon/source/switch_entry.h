// What a context switch takes, measured on threads of our own.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_
#define PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_

#include <vector>

namespace profd {

// Two threads on one CPU that hand a word to and fro, for some 15 ms in all and hardly more than
// 100 ms where others want that CPU: appends the CPU time from one switch to the next, ns, of each
// of some rounds. Nothing when they cannot be made.
void MeasureSwitches(std::vector<double>* rounds);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_
