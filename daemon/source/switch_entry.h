// Measures a context switch, between two threads of our own.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_
#define PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_

#include <vector>

namespace profd {

// What it takes to enter a program at a context switch or a wake-up, ns, where it could not be
// measured.
inline constexpr double kAssumedEntryNs = 100;

// Two threads on one CPU pass a word back and forth, for some ms in total, or up to about 25 ms if
// the CPU is busy. Appends the mean CPU time from one switch to the next, ns, for each round.
// Appends nothing if the threads cannot be created.
void MeasureSwitches(std::vector<double>* rounds);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_
